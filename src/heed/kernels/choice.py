"""The switch between the fast implementations and the formulas, and what a machine computes fast."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_plain = False


@contextmanager
def plain() -> Iterator[None]:
    """Inside this context every function of :mod:`heed.kernels` computes by its formula in :mod:`heed.functional`."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before


def is_plain() -> bool:
    """Return whether the formulas are to be used."""
    return _plain


def on_cpu(x: Tensor) -> bool:
    """Return whether to use the implementation for CPUs. A compiler makes its own from the formulas."""
    return not _plain and x.is_cpu and not torch.compiler.is_compiling()


def matmul_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which autocast computes matrix products with ``x``. It leaves float64 alone."""
    device = x.device.type
    casts = torch.is_autocast_enabled(device) and x.dtype != torch.float64
    return torch.get_autocast_dtype(device) if casts else x.dtype


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


def keep_freed_memory() -> None:
    """Make the allocator reuse freed memory instead of returning it to the system, and use huge pages.

    The settings are those of the whole process and cannot be undone, so programs call this, not the library. Call it
    before the first matrix product.
    """
    # By default glibc unmaps every large tensor, and the kernel clears its pages again: tens of thousands per step.
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        m_trim_threshold, m_mmap_max = -1, -4  # malloc.h
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, -1)
        _use_huge_pages(libc, 2**31)
    # oneDNN and PyTorch's bridge to it each keep code and work space for the last 1024 shapes of products. New shapes
    # come with every batch: the caches fill gigabytes and fragment the heap, so that glibc searches long for memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")


def _use_huge_pages(libc: ctypes.CDLL, size: int) -> None:
    """Use pages of 2 MiB for the next ``size`` bytes of the heap."""
    huge, madv_hugepage = 2**21, 14  # sys/mman.h
    libc.malloc.restype = ctypes.c_void_p
    # The freed block stays at the end of the heap. It is address space only: nothing has been written to it.
    start = libc.malloc(ctypes.c_size_t(size))
    if start is not None:
        first = -(-start // huge) * huge
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(start + size - first), madv_hugepage)
        libc.free(ctypes.c_void_p(start))
