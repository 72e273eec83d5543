"""A list of modules of one class."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from torch import nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class Stack(nn.ModuleList, Generic[ModuleT]):
    """`nn.ModuleList` with the class of its modules, which the type checker cannot know otherwise."""

    def __init__(self, modules: Iterable[ModuleT]) -> None:
        super().__init__(modules)

    def __iter__(self) -> Iterator[ModuleT]:
        return super().__iter__()  # type: ignore[return-value]

    def __getitem__(self, index: int) -> ModuleT:  # type: ignore[override]
        return super().__getitem__(index)  # type: ignore[return-value]
