"""Run functions in worker processes that end with their parent."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from heed.errors import MachineError

Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """Runs functions in worker processes, which end with the ``with`` block, or in this process.

    Args:
        processes: number of worker processes. 0: work in this process, which is faster for a small corpus.
    """

    def __init__(self, processes: int) -> None:
        self._pool = start_pool(processes) if processes else None
        self._waiting = 2 * processes  # tasks submitted in advance, so that no worker is idle

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._pool is None:
            return
        if error is not None:
            for process in (self._pool._processes or {}).values():
                process.terminate()  # its unfinished files are written again
        self._pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise MachineError(
                "A process that prepares the training text was killed, probably for lack of memory: start again "
                "with a smaller data.preparation.num_proc."
            ) from error

    def map(self, tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of picklable functions in order, holding only a few at a time."""
        if self._pool is None:
            yield from (task() for task in tasks)
        else:
            for future in ahead(map(self._pool.submit, tasks), self._waiting):
                yield future.result()


def ahead(items: Iterable[Item], depth: int) -> Iterator[Item]:
    """Yield the items, always taking ``depth`` more than have been yielded. The items are futures of work that runs."""
    waiting: deque[Item] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > depth:
            yield waiting.popleft()
    yield from waiting


def start_pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this one."""
    # Forking a process with threads, such as torch's, may hang.
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _start_process)


def _start_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends this one
    end_with_parent()


def end_with_parent() -> None:
    """From now on, end this process when its parent dies, even by SIGKILL. Otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
