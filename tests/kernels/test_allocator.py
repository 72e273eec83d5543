"""What a process does with freed memory once it has been told to keep it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

PROGRAM = """
import re
from pathlib import Path
from heed.kernels.allocator import keep_freed_memory

keep_freed_memory()
import torch

def megabytes(of: str) -> int:
    return int(re.search(of + r":\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())[1]) >> 10

before = megabytes("Rss")
tensors = [torch.ones(2**20) for _ in range(100)]
held = megabytes("Rss")
del tensors
print(before, held, megabytes("Rss"), megabytes("AnonHugePages"))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc is on Linux")
def test_freed_memory_is_kept_in_huge_pages_that_were_used() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    before, held, after, huge = map(int, ran.stdout.split())
    assert 390 < held - before < 430  # 100 tensors of 4 MiB, and no byte of the room that was asked for
    assert after > held - 8
    if HUGE_PAGES.exists() and not re.search(r"\[never\]", HUGE_PAGES.read_text()):
        assert huge > 380
