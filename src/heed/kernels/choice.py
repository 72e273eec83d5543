"""The switch between the fast implementations and the formulas."""

from collections.abc import Iterator
from contextlib import contextmanager

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
