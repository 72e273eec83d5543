"""Start the peers that are installed; name the others."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

Peer = TypeVar("Peer")


class UnavailableError(Exception):
    """A peer is not installed or does not support the model."""


def require(package: str) -> Any:
    """Import a package.

    Raises:
        UnavailableError: it is not installed.
    """
    if find_spec(package) is None:
        raise UnavailableError(f"{package} is not installed (pip install -e '.[bench]')")
    return import_module(package)


def start_available(makers: Mapping[str, Callable[[], Peer]]) -> tuple[dict[str, Peer], dict[str, str]]:
    """Call each maker.

    Args:
        makers: by name: a peer, and after a space its variant.

    Returns:
        The peers by name, and for each unavailable peer the reason.
    """
    started: dict[str, Peer] = {}
    skipped: dict[str, str] = {}
    for name, make in makers.items():
        try:
            started[name] = make()
        except UnavailableError as reason:
            peer, *_ = name.split()
            if peer not in skipped:
                print(f"  {peer}: skipped, {reason}", flush=True)
            skipped[peer] = str(reason)
    return started, skipped
