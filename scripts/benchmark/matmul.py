"""How long the matrix products of a computation take by themselves: the machine's own limit."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Product = tuple[tuple[int, ...], tuple[int, ...], bool, bool, torch.dtype]
"""The two operands' sizes, which of them is a transposed view (the kernels care), and what they are numbers of."""

OPERANDS = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
"""Where among the arguments the first of the two factors stands."""


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: Counter[Product] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (first := OPERANDS.get(func._schema.name)) is not None:
            a, b = args[first : first + 2]
            self.seen[tuple(a.shape), tuple(b.shape), not a.is_contiguous(), not b.is_contiguous(), a.dtype] += 1
        return func(*args, **(kwargs or {}))


def products_of(compute: Callable[[], None]) -> Counter[Product]:
    """The matrix products that a computation consists of, those inside fused attention kernels left out."""
    with _Products() as products:
        compute()
    return products.seen


def matmul_seconds(
    products: Mapping[Product, int], *, now: Callable[[], float], repetitions: int = 3
) -> tuple[float, float]:
    """What these products take, operands and results in memory (the best of some repetitions), and FLOP/s."""
    seconds, flops = 0.0, 0.0
    for (a_shape, b_shape, a_turned, b_turned, dtype), count in products.items():
        a, b = _matrix(a_shape, a_turned, dtype), _matrix(b_shape, b_turned, dtype)
        out = a @ b
        times = []
        for _ in range(repetitions):
            start = now()
            torch.matmul(a, b, out=out)
            times.append(now() - start)
        seconds += count * min(times)
        flops += count * 2.0 * out.numel() * a_shape[-1]
    return seconds, flops / seconds


def _matrix(shape: tuple[int, ...], turned: bool, dtype: torch.dtype) -> Tensor:
    *batch, rows, columns = shape
    return torch.randn(*batch, columns, rows).to(dtype).mT if turned else torch.randn(shape).to(dtype)
