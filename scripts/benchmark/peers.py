"""Which peers there are, and how it is said that one is not."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

Made = TypeVar("Made")


class UnableError(Exception):
    """A peer cannot do this, for the reason given."""


def installed(package: str) -> Any:
    """The package; raises UnableError where it is missing."""
    if find_spec(package) is None:
        raise UnableError(f"{package} is not installed (pip install 'heed[bench]')")
    return import_module(package)


def those_able(makers: Mapping[str, Callable[[], Made]]) -> tuple[dict[str, Made], dict[str, str]]:
    """What could be made, by name, a peer and what it does; and of the other peers the reason why not."""
    made: dict[str, Made] = {}
    skipped: dict[str, str] = {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except UnableError as reason:
            peer, *_ = name.split()
            if peer not in skipped:
                print(f"  {peer}: skipped, {reason}", flush=True)
            skipped[peer] = str(reason)
    return made, skipped
