"""Time of the matrix products of a computation alone: an upper limit of speed on this machine."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Product = tuple[tuple[int, ...], tuple[int, ...], bool, bool, torch.dtype]
"""Shapes of the two factors, whether each is a transposed view (which affects speed), and their dtype."""

FIRST_FACTOR = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
"""By operator: index of the first of its two factors among the arguments."""


class _RecordProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: Counter[Product] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (first := FIRST_FACTOR.get(func._schema.name)) is not None:
            a, b = args[first : first + 2]
            self.products[tuple(a.shape), tuple(b.shape), not a.is_contiguous(), not b.is_contiguous(), a.dtype] += 1
        return func(*args, **(kwargs or {}))


def record_products(compute: Callable[[], None]) -> Counter[Product]:
    """Run a computation and count its matrix products; those inside fused attention kernels are not seen."""
    with _RecordProducts() as recorded:
        compute()
    return recorded.products


def time_products(
    products: Mapping[Product, int], *, now: Callable[[], float], repetitions: int = 3
) -> tuple[float, float]:
    """Time these products, with allocated factors and results.

    Returns:
        Total seconds, from the fastest repetition of each product; and FLOP/s.
    """
    seconds, flops = 0.0, 0.0
    for (a_shape, b_shape, a_transposed, b_transposed, dtype), count in products.items():
        a, b = _matrix(a_shape, a_transposed, dtype), _matrix(b_shape, b_transposed, dtype)
        out = a @ b
        times = []
        for _ in range(repetitions):
            start = now()
            torch.matmul(a, b, out=out)
            times.append(now() - start)
        seconds += count * min(times)
        flops += count * 2.0 * out.numel() * a_shape[-1]
    return seconds, flops / seconds


def _matrix(shape: tuple[int, ...], transposed: bool, dtype: torch.dtype) -> Tensor:
    *batch, rows, columns = shape
    return torch.randn(*batch, columns, rows).to(dtype).mT if transposed else torch.randn(shape).to(dtype)
