"""Worker processes that share one progress bar."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from typing import Any, TypeVar

from heed.data.text import Advance
from heed.errors import HeedError
from heed.progress import progress_bar

Argument = TypeVar("Argument")
Result = TypeVar("Result")

POLL = 0.1
"""Seconds between two looks at the progress of the workers."""

SPAWN = multiprocessing.get_context("spawn")
"""A fork of a process with threads (torch has some) may hang."""

_done: "Synchronized[int] | None" = None
"""In a worker: the units of work that all workers have done."""


class Workers:
    """Runs functions in worker processes, or in this process.

    Args:
        processes: number of worker processes. 0: work in this process, which is faster for a small corpus.
    """

    def __init__(self, processes: int) -> None:
        self._pool: ProcessPoolExecutor | None = None
        if processes:
            self._counter = SPAWN.Value("q", 0)
            self._pool = start_pool(processes, _share_counter, self._counter)

    @classmethod
    @contextmanager
    def started(cls, processes: int) -> "Iterator[Workers]":
        """Start the processes, and end them with the block."""
        workers = cls(processes)
        try:
            yield workers
        except BaseException as error:
            if workers._pool is not None:
                for process in (workers._pool._processes or {}).values():
                    process.terminate()  # what they were writing is written again
            if isinstance(error, BrokenProcessPool):
                raise HeedError(
                    "A process that prepares the training text was killed, probably for lack of memory: start again "
                    "with a smaller data.preparation.num_proc."
                ) from error
            raise
        finally:
            if workers._pool is not None:
                workers._pool.shutdown(cancel_futures=True)

    def map(
        self, tasks: Sequence[Callable[[Advance], Result]], *, description: str, total: float, unit: str
    ) -> list[Result]:
        """Return the results of all tasks, in their order.

        Args:
            tasks: picklable functions. Their argument reports the units of work that they have done.
            description, total, unit: of the progress bar.
        """
        with progress_bar(description, total=total, unit=unit) as bar:
            if self._pool is None:
                return [task(bar.update) for task in tasks]
            self._counter.value = 0
            futures = [self._pool.submit(_run, task) for task in tasks]
            pending = set(futures)
            while pending:
                finished, pending = wait(pending, timeout=POLL, return_when=FIRST_COMPLETED)
                bar.update(self._counter.value - bar.n)
                for future in finished:
                    future.result()  # raises the error of the task
            return [future.result() for future in futures]

    def call(self, function: Callable[[Argument], Result], argument: Argument) -> Result:
        """Return the result of one call, in a worker if there are any: its memory is freed with the worker's."""
        return function(argument) if self._pool is None else self._pool.submit(function, argument).result()


def start_pool(processes: int, initializer: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this one. The initializer is called in each process."""
    return ProcessPoolExecutor(processes, SPAWN, _start_process, (initializer, *arguments))


def _start_process(initializer: Callable[..., None], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    initializer(*arguments)


def _end_with_parent() -> None:
    """End this process when its parent dies, even of SIGKILL; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _share_counter(counter: "Synchronized[int]") -> None:
    global _done
    _done = counter


def _run(task: Callable[[Advance], Result]) -> Result:
    return task(_advance)


def _advance(units: float) -> None:
    assert _done is not None
    with _done.get_lock():
        _done.value += int(units)
