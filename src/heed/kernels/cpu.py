"""Properties of this machine's CPU."""

from pathlib import Path


def has_bf16_matmul() -> bool:
    """Return whether the CPU multiplies matrices in bf16: by AMX tiles or AVX-512 dot products."""
    return bool({"amx_bf16", "avx512_bf16"} & _flags())


def has_slow_mkl() -> bool:
    """Return whether torch's fp32 products by MKL are slow: MKL does not use AVX-512 on AMD's CPUs."""
    return {"AuthenticAMD", "avx512f"} <= _flags()


def _flags() -> set[str]:
    cpuinfo = Path("/proc/cpuinfo")
    return set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
