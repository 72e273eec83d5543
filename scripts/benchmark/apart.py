"""Peers that train in processes of their own, so that none gains or loses by another's heap."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

import numpy as np
import torch

from benchmark.peers import UnableError
from heed.data.batch import Batch, collate
from heed.data.encoded import EncodedSplit
from heed.errors import HeedError

Step = Callable[[Sequence[Batch]], None]
"""One optimizer step over these batches."""

ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**34)}
"""What people set around torch on a CPU: freed memory is kept. What else heed does about memory is its own merit."""


class Apart:
    """A peer's steps, taken and timed in another process.

    Args:
        make: What the process begins with; may be pickled.
        now: The clock, in seconds.

    Raises:
        UnableError: ``make`` did.
    """

    def __init__(self, make: Callable[[], Step], *, now: Callable[[], float]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        worker = context.Process(target=_work, args=(make, now, torch.get_num_threads(), theirs), daemon=True)
        with _environment():
            worker.start()
        theirs.close()
        if (reason := self.connection.recv()) is not None:
            raise UnableError(reason)

    def seconds(self, steps: Sequence[EncodedSplit]) -> float:
        """How long one step over each of these took, collation included."""
        self.connection.send(steps)
        try:
            taken: float = self.connection.recv()
        except EOFError:
            raise HeedError("A peer's process has ended: its message is above, or it ran out of memory.") from None
        return taken

    def close(self) -> None:
        """End the process."""
        self.connection.close()


def _work(make: Callable[[], Step], now: Callable[[], float], threads: int, connection: Connection) -> None:
    torch.set_num_threads(threads)
    try:
        step = make()
    except UnableError as reason:
        connection.send(str(reason))
        return
    connection.send(None)
    while True:
        try:
            steps: Sequence[EncodedSplit] = connection.recv()
        except EOFError:  # the benchmark is done with this peer
            return
        start = now()
        for pairs in steps:
            step([collate(np.arange(len(pairs)), pairs.src, pairs.tgt)])
        connection.send(now() - start)


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
