"""Peers that work in processes of their own, so that none gains or loses by another's heap."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import torch

from benchmark.peers import UnableError
from heed.errors import HeedError

Work = TypeVar("Work")
Done = TypeVar("Done")

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""What people set around torch on a CPU: freed memory is kept. What else heed does about memory is its own merit."""


def timed(do: Callable[[Work], Done], work: Work, now: Callable[[], float]) -> tuple[Done, float]:
    """What came of it, and the seconds it took."""
    start = now()
    done = do(work)
    return done, now() - start


class Apart(Generic[Work, Done]):
    """What a peer does, done and timed in another process.

    Args:
        make: How that process begins; gives what it does from then on. It, all work and all that is done are pickled.
        now: The clock, in seconds.

    Raises:
        UnableError: ``make`` did.
    """

    def __init__(self, make: Callable[[], Callable[[Work], Done]], *, now: Callable[[], float]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(make, now, torch.get_num_threads(), theirs), daemon=True)
        with _environment():
            self.process.start()
        theirs.close()
        if (reason := self._receive()) is not None:
            raise UnableError(reason)

    def __call__(self, work: Work) -> tuple[Done, float]:
        """What came of it, and the seconds it took."""
        self.connection.send(work)
        done: Done
        done, seconds = self._receive()
        return done, seconds

    def close(self) -> None:
        """End the process, and see it gone: what is measured next shall have the machine to itself."""
        self.connection.close()
        self.process.join()

    def _receive(self) -> Any:
        try:
            return self.connection.recv()
        except EOFError:
            raise HeedError("A peer's process has ended: it says why above, or it ran out of memory.") from None


def _serve(
    make: Callable[[], Callable[[Any], Any]], now: Callable[[], float], threads: int, connection: Connection
) -> None:
    torch.set_num_threads(threads)
    try:
        do = make()
    except UnableError as reason:
        connection.send(str(reason))
        return
    connection.send(None)
    while True:
        try:
            work = connection.recv()
        except EOFError:  # nothing more to do
            return
        connection.send(timed(do, work, now))


@contextmanager
def _environment() -> Iterator[None]:
    """That of a process not started by heed, with `ALLOCATOR`."""
    before = dict(os.environ)
    os.environ.update(ALLOCATOR)
    os.environ.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
