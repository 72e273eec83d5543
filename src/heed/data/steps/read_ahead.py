"""Prepare batches in a thread while the model trains."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from torch.utils.data import IterableDataset

from heed.data.text.workers import ahead

Item = TypeVar("Item")


class ReadAhead(IterableDataset[Item]):
    """Yields the items that ``read`` returns, none of them None. A thread prepares up to ``depth`` items in advance.

    An exception in the thread is raised in place of its item. The thread ends after the last item, when the iteration
    is abandoned, and at `close`.

    A worker process of `DataLoader` would delay the first step by importing torch, and could not start the process of
    `heed.data.pairs.augmentation`.
    """

    def __init__(self, read: Callable[[], Iterator[Item]], *, depth: int) -> None:
        self.read, self.depth = read, depth
        self.wait_seconds = 0.0  # seconds that the consumer has waited for items of the latest iteration
        self._thread: ThreadPoolExecutor | None = None

    def __iter__(self) -> Iterator[Item]:
        self.wait_seconds = 0.0
        self._thread = thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        try:
            items = self.read()
            for reading in ahead((thread.submit(next, items, None) for _ in count()), self.depth):
                start = time.perf_counter()
                item = reading.result()
                self.wait_seconds += time.perf_counter() - start
                if item is None:
                    return
                yield item
        finally:
            thread.shutdown(cancel_futures=True)

    def close(self) -> None:
        """End the thread, if there is one. The iteration must not continue."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
