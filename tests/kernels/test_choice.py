"""What CPUs compute fast, and the allocator: freed memory is kept, and cached products take little."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from heed.kernels.choice import has_fast_bf16_matmul, max_onednn_rows
from heed.training.trainer import resolve_precision

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

START = """
import re
from pathlib import Path
from heed.kernels.choice import keep_freed_memory

keep_freed_memory()
import torch

def megabytes(of: str) -> int:
    return int(re.search(of + r":\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())[1]) >> 10
"""

FREED = """
before = megabytes("Rss")
tensors = [torch.ones(2**20) for _ in range(100)]
held = megabytes("Rss")
del tensors
print(before, held, megabytes("Rss"), megabytes("AnonHugePages"))
"""

SHAPES = """
from heed import kernels

weight = torch.nn.Parameter(torch.randn(1024, 256))
with torch.no_grad():
    linear = kernels.WeightPacker().prepared_linear((weight, None))
    for rows in range(1000, 1400):
        linear(torch.randn(rows, 256))
        if rows == 1100:
            before = megabytes("Rss")
print(before, megabytes("Rss"))
"""


def numbers(program: str) -> list[int]:
    ran = subprocess.run([sys.executable, "-c", START + program], check=True, capture_output=True, text=True)
    return [int(word) for word in ran.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc is on Linux")
def test_freed_memory_is_kept_in_huge_pages_that_were_used() -> None:
    before, held, after, huge = numbers(FREED)
    assert 390 < held - before < 430  # 100 tensors of 4 MiB, and no byte of the room that was asked for
    assert after > held - 8
    if HUGE_PAGES.exists() and not re.search(r"\[never\]", HUGE_PAGES.read_text()):
        assert huge > 200  # where memory is fragmented, the kernel has too few whole pages of 2 MiB for all 400


@pytest.mark.skipif(max_onednn_rows() < 1400, reason="MKL multiplies so many rows on this CPU, and caches no shapes")
@pytest.mark.full
def test_memory_does_not_grow_with_the_shapes_of_products() -> None:
    # With PyTorch's own limit of 1024 cached shapes, each of the 300 added 6 MiB.
    before, after = numbers(SHAPES)
    assert after - before < 500


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
