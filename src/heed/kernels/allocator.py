"""What becomes of freed memory on a CPU."""

import ctypes
import os
import sys


def keep_freed_memory() -> None:
    """Have freed memory reused instead of given back, and kept in one piece. Before the first matrix product.

    For the whole process and for good, so programs call it, not the library.
    """
    # glibc would unmap every large tensor, and the kernel zero its pages again, tens of thousands a step: without that,
    # training and translating are 5 to 8 % faster.
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        m_trim_threshold, m_mmap_max = -1, -4  # malloc.h
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, -1)
        # Training is 3 to 5 % faster so.
        _in_huge_pages(libc, 2**31)
    # oneDNN, which multiplies in bf16, keeps what it made for the last 1024 shapes of products. It lies between the
    # tensors, new shapes come with every step, and glibc ends up searching: a fifth of the time of a tiny model.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def _in_huge_pages(libc: ctypes.CDLL, room: int) -> None:
    """Have the next ``room`` bytes of the heap come in pages of 2 MiB, when they are first used."""
    huge, madv_hugepage = 2**21, 14  # sys/mman.h
    libc.malloc.restype = ctypes.c_void_p
    # What is freed stays the end of the heap. It is address space alone: nothing has been written to it.
    start = libc.malloc(ctypes.c_size_t(room))
    if start is not None:
        first = -(-start // huge) * huge
        libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(start + room - first), madv_hugepage)
        libc.free(ctypes.c_void_p(start))
