"""Start the peers that are installed, each in its own process, so that no peer is affected by another's heap."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, Generic, ParamSpec, TypeVar

import torch

from benchmark.measure import peak_mib, timed
from heed.data.text.workers import end_with_parent
from heed.errors import HeedError

Arguments = ParamSpec("Arguments")
Work = TypeVar("Work")
Result = TypeVar("Result")

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""The usual glibc settings for torch on a CPU: freed memory is kept. heed's further allocator settings are not given to
the peers."""


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


def in_new_process(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Return the result of a function in a new process."""
    with _start_process() as executor:
        return executor.submit(function, *args, **kwargs).result()


def _start_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), end_with_parent)


class PeerProcess(Generic[Work, Result]):
    """A function that runs in another process and is timed there.

    Args:
        make: is called in the new process and returns the function. ``make``, work and results must be picklable.
        now: the clock, in seconds.

    Raises:
        UnavailableError: ``make`` raised it.
    """

    def __init__(self, make: Callable[[], Callable[[Work], Result]], *, now: Callable[[], float]) -> None:
        self.now = now
        self.executor = _start_process()
        with _peer_environment():
            self.executor.submit(_start, make, torch.get_num_threads()).result()

    def __call__(self, work: Work) -> tuple[Result, float]:
        """Return the result and the seconds it took."""
        try:
            return self.executor.submit(_compute, work, self.now).result()
        except BrokenProcessPool:
            raise HeedError(
                "A peer's process has ended: see its output above. Without output, it probably ran out of memory."
            ) from None

    def peak_mib(self) -> float:
        """Return the largest resident memory that the process has had."""
        return self.executor.submit(peak_mib).result()

    def close(self) -> None:
        """End the process and wait for it, so that it does not slow down later measurements."""
        self.executor.shutdown()


def start_peers(
    makers: Mapping[str, Callable[[], Callable[[Work], Result]]], *, now: Callable[[], float]
) -> tuple[dict[str, PeerProcess[Work, Result]], dict[str, str]]:
    """Start a process for each peer.

    Args:
        makers: by name: a peer, and after a space its variant.
        now: the clock, in seconds.

    Returns:
        The peers by name, and for each unavailable peer the reason.
    """
    started: dict[str, PeerProcess[Work, Result]] = {}
    skipped: dict[str, str] = {}
    for name, make in makers.items():
        try:
            started[name] = PeerProcess(make, now=now)
        except UnavailableError as reason:
            peer, *_ = name.split()
            if peer not in skipped:
                print(f"  {peer}: skipped, {reason}", flush=True)
            skipped[peer] = str(reason)
    return started, skipped


_functions: list[Callable[[Any], Any]] = []
"""The function of this peer's process."""


def _start(make: Callable[[], Callable[[Any], Any]], threads: int) -> None:
    torch.set_num_threads(threads)
    _functions.append(make())


def _compute(work: Any, now: Callable[[], float]) -> Any:
    return timed(_functions[0], work, now)


@contextmanager
def _peer_environment() -> Iterator[None]:
    """Set the environment that a peer's process inherits: without heed's settings, with `ALLOCATOR`."""
    before = dict(os.environ)
    os.environ.update(ALLOCATOR)
    os.environ.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
