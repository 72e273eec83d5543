"""Read ahead in a thread, so that training does not wait for what can be prepared meanwhile."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from torch.utils.data import IterableDataset

Item = TypeVar("Item")


class _End:
    """The end of the items."""


class ReadAhead(IterableDataset[Item]):
    """The items of another dataset, which a thread prepares up to ``depth`` items ahead.

    An exception in the thread is raised where its item would be. The thread ends with the items, when the iteration is
    abandoned, and at `close`.

    Not a worker process of `DataLoader`: it would import torch before the first step, and could not start the process
    that draws segmentations.

    Args:
        items: what is read. It is iterated over in the thread.
        depth: items that are ready at most.
    """

    def __init__(self, items: Iterable[Item], *, depth: int) -> None:
        self.items, self.depth = items, depth
        self.wait_seconds = 0.0
        """How long the reader has waited for items."""
        self._thread: ThreadPoolExecutor | None = None

    def __iter__(self) -> Iterator[Item]:
        self._thread = thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        try:
            items = iter(self.items)

            def read() -> Item | _End:
                return next(items, _End())

            waiting = deque(thread.submit(read) for _ in range(self.depth))
            while True:
                start = time.perf_counter()
                item = waiting.popleft().result()
                self.wait_seconds += time.perf_counter() - start
                if isinstance(item, _End):
                    return
                waiting.append(thread.submit(read))
                yield item
        finally:
            thread.shutdown(cancel_futures=True)

    def close(self) -> None:
        """End the thread, if there is one. The iteration must not go on."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
