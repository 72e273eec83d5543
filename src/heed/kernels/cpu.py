"""Properties of this machine's CPU."""

import sys
from functools import cache
from pathlib import Path


def has_fast_bf16_matmul() -> bool:
    """Return whether the CPU multiplies matrices faster in bf16 than in fp32.

    AMX tiles do. So do AVX-512's dot products in bf16 on AMD's CPUs, where MKL does not use AVX-512 for fp32. On
    Intel's they are no faster than fp32: without AMX, training in bf16 had 0.6 times the speed.
    """
    flags = _flags()
    return "amx_bf16" in flags or {"avx512_bf16", "AuthenticAMD"} <= flags


def max_onednn_rows() -> int:
    """Return the number of rows up to which oneDNN multiplies fp32 matrices faster than MKL: 0 where it never does.

    MKL does not use AVX-512 on AMD's CPUs. On those without AVX-512, it is slow for few rows only.
    """
    flags = _flags()
    if "AuthenticAMD" not in flags:
        return 0
    return sys.maxsize if "avx512f" in flags else 32


@cache
def _flags() -> set[str]:
    cpuinfo = Path("/proc/cpuinfo")
    return set(cpuinfo.read_text(encoding="utf-8").split()) if cpuinfo.exists() else set()
