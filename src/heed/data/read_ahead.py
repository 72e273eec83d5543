"""Read ahead in a thread, so that training does not wait for what can be prepared meanwhile."""

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from queue import Full, Queue
from typing import TypeVar

from torch.utils.data import IterableDataset

Item = TypeVar("Item")

POLL_SECONDS = 0.1
"""How often the thread looks whether the reader has stopped."""


class ReadAhead(IterableDataset[Item]):
    """The items of another dataset, which a thread prepares up to ``depth`` items ahead.

    The thread ends with the items, when the iteration is abandoned, and at `close`. An exception in the thread is
    raised where its item would be.

    Args:
        items: what is read. It is iterated over in the thread.
        depth: items that are ready at most.
    """

    def __init__(self, items: Iterable[Item], *, depth: int) -> None:
        self.items = items
        self.depth = depth
        self.wait_seconds = 0.0
        """How long the reader has waited for items."""
        self._stopped = threading.Event()

    def __iter__(self) -> Iterator[Item]:
        queue: Queue[Item | _End] = Queue(self.depth)
        self._stopped = stopped = threading.Event()
        thread = threading.Thread(target=_produce, args=(self.items, queue, stopped), name="read-ahead", daemon=True)
        thread.start()
        try:
            while True:
                start = time.perf_counter()
                item = queue.get()
                self.wait_seconds += time.perf_counter() - start
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    return
                yield item
        finally:
            stopped.set()
            thread.join()

    def close(self) -> None:
        """End the thread, if there is one. The iteration must not go on."""
        self._stopped.set()


@dataclass(frozen=True)
class _End:
    """The end of the items, or the exception that ended them."""

    error: BaseException | None


def _produce(items: Iterable[Item], queue: "Queue[Item | _End]", stopped: threading.Event) -> None:
    """Put all items into the queue, until the reader has stopped."""
    error = None
    try:
        for item in items:
            if not _put(queue, item, stopped):
                return
    except BaseException as raised:
        error = raised
    _put(queue, _End(error), stopped)


def _put(queue: "Queue[Item | _End]", item: Item | _End, stopped: threading.Event) -> bool:
    """Put an item into the queue as soon as there is room. Return whether the reader still wants it."""
    while not stopped.is_set():
        try:
            queue.put(item, timeout=POLL_SECONDS)
            return True
        except Full:
            continue
    return False
