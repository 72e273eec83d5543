"""What this machine's CPU is good at."""

from pathlib import Path


def has_bf16_matmul() -> bool:
    """Whether it has products for bf16: AMX tiles, or AVX-512's dot products."""
    return bool({"amx_bf16", "avx512_bf16"} & _words())


def has_slow_mkl() -> bool:
    """Whether MKL, by which torch multiplies in fp32, reaches half its speed: AMD's AVX-512 is not used."""
    return {"AuthenticAMD", "avx512f"} <= _words()


def _words() -> set[str]:
    cpuinfo = Path("/proc/cpuinfo")
    return set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
