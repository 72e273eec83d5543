"""Run each peer in its own process, so that no peer is affected by another's heap."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import torch

from benchmark.measure import timed
from benchmark.peers import UnavailableError
from heed.errors import HeedError

Work = TypeVar("Work")
Result = TypeVar("Result")

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""The usual glibc settings for torch on a CPU: freed memory is kept. heed's further allocator settings are not given to
the peers."""


class PeerProcess(Generic[Work, Result]):
    """A function that runs in another process and is timed there.

    Args:
        make: is called in the new process and returns the function. ``make``, work and results must be picklable.
        now: the clock, in seconds.

    Raises:
        UnavailableError: ``make`` raised it.
    """

    def __init__(self, make: Callable[[], Callable[[Work], Result]], *, now: Callable[[], float]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process = context.Process(target=_serve, args=(make, now, torch.get_num_threads(), child), daemon=True)
        with _peer_environment():
            self.process.start()
        child.close()
        if (reason := self._receive()) is not None:
            raise UnavailableError(reason)

    def __call__(self, work: Work) -> tuple[Result, float]:
        """Return the result and the seconds it took."""
        self.connection.send(work)
        result: Result
        result, seconds = self._receive()
        return result, seconds

    def close(self) -> None:
        """End the process and wait for it, so that it does not slow down later measurements."""
        self.connection.close()
        self.process.join()

    def _receive(self) -> Any:
        try:
            return self.connection.recv()
        except EOFError:
            raise HeedError(
                "A peer's process has ended: see its output above. Without output, it probably ran out of memory."
            ) from None


def _serve(
    make: Callable[[], Callable[[Any], Any]], now: Callable[[], float], threads: int, connection: Connection
) -> None:
    torch.set_num_threads(threads)
    try:
        compute = make()
    except UnavailableError as reason:
        connection.send(str(reason))
        return
    connection.send(None)
    while True:
        try:
            work = connection.recv()
        except EOFError:  # the parent has closed the connection
            return
        connection.send(timed(compute, work, now))


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
