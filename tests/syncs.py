"""Count on a CPU the operations for which the host of an accelerator would wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class SyncCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations for which an accelerator's host waits."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        by_mask = name.startswith(("aten::index", "aten::_index_put")) and any(
            isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in _indices(args)
        )
        size_depends_on_values = torch.Tag.dynamic_output_shape in func.tags and not name.startswith("aten::index")
        if torch.Tag.data_dependent_output in func.tags or size_depends_on_values or by_mask:
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def _indices(args: Any) -> list[Any]:
    return list(args[1]) if len(args) > 1 and isinstance(args[1], list | tuple) else []


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the list of operations to which each sync is added. `tolist` and `cpu` are no operations on a CPU."""
    with monkeypatch.context() as patch, SyncCounter() as counter:
        for name in ("tolist", "cpu"):
            patch.setattr(Tensor, name, _recorded(name, getattr(Tensor, name), counter.seen))
        yield counter.seen


def _recorded(name: str, method: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        return method(self, *args, **kwargs)

    return call
