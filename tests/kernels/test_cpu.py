"""What is known of CPUs decides the precision of training and the library of products."""

import sys

import pytest

from heed.kernels.choice import has_fast_bf16_matmul, max_onednn_rows
from heed.training.trainer import resolve_precision

INTEL_AVX512 = {"GenuineIntel", "avx2", "avx512f", "avx512_bf16"}
AMD_AVX2 = {"AuthenticAMD", "avx2"}

CPUS: dict[str, tuple[set[str], str, int]] = {
    "Intel, AVX2": ({"GenuineIntel", "avx2"}, "32-true", 0),
    "Intel, AVX-512": (INTEL_AVX512, "32-true", 0),
    "Intel, AMX": (INTEL_AVX512 | {"amx_bf16"}, "bf16-mixed", 0),
    "AMD, AVX2": (AMD_AVX2, "32-true", 32),
    "AMD, AVX-512": (AMD_AVX2 | {"avx512f"}, "32-true", sys.maxsize),
    "AMD, AVX-512 with bf16": (AMD_AVX2 | {"avx512f", "avx512_bf16"}, "bf16-mixed", sys.maxsize),
    "not Linux": (set(), "32-true", 0),
}


@pytest.mark.parametrize("cpu", CPUS)
def test_each_kind_of_cpu(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flags, precision, rows = CPUS[cpu]
    monkeypatch.setattr("heed.kernels.choice._flags", lambda: flags)
    assert resolve_precision("auto", "cpu") == precision
    assert has_fast_bf16_matmul() == (precision == "bf16-mixed")
    assert max_onednn_rows() == rows
