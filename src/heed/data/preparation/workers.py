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
from typing import TypeVar

from heed.data.text import Advance
from heed.errors import HeedError
from heed.progress import progress_bar

Task = TypeVar("Task")
Result = TypeVar("Result")

POLL = 0.1
"""Seconds between two looks at the progress of the workers."""

_done: "Synchronized[int] | None" = None
"""In a worker: the units of work that all workers have done."""


class Workers:
    """Runs functions in worker processes, or in this process.

    Args:
        processes: number of worker processes. 0: work in this process, which is faster for a small corpus.
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._counter: Synchronized[int] | None = None
        self._pool: ProcessPoolExecutor | None = None

    @classmethod
    @contextmanager
    def started(cls, processes: int) -> "Iterator[Workers]":
        """Start the processes, and end them with the block."""
        workers = cls(processes)
        try:
            if processes:
                # "spawn", because a fork of a process with threads (torch has some) may hang.
                context = multiprocessing.get_context("spawn")
                workers._counter = context.Value("q", 0)
                workers._pool = ProcessPoolExecutor(processes, context, _start_worker, (workers._counter,))
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
        self,
        function: Callable[[Task, Advance], Result],
        tasks: Sequence[Task],
        *,
        description: str,
        total: float,
        unit: str,
        initial: float = 0,
    ) -> list[Result]:
        """Return the results of the function for all tasks, in their order.

        Args:
            function: called with a task and with a function that reports the units of work done.
            description, total, unit, initial: of the progress bar.
        """
        with progress_bar(description, total=total, unit=unit, initial=initial) as bar:
            if self._pool is None:
                return [function(task, bar.update) for task in tasks]
            assert self._counter is not None
            self._counter.value = 0
            futures = [self._pool.submit(_run, function, task) for task in tasks]
            pending = set(futures)
            while pending:
                finished, pending = wait(pending, timeout=POLL, return_when=FIRST_COMPLETED)
                bar.update(initial + self._counter.value - bar.n)
                for future in finished:
                    future.result()  # raises the error of the task
            return [future.result() for future in futures]

    def call(self, function: Callable[[Task], Result], task: Task) -> Result:
        """Return the result of one call, in a worker if there are any: its memory is freed with the worker's."""
        return self._pool.submit(function, task).result() if self._pool is not None else function(task)


def _run(function: Callable[[Task, Advance], Result], task: Task) -> Result:
    return function(task, _advance)


def _advance(units: float) -> None:
    assert _done is not None
    with _done.get_lock():
        _done.value += int(units)


def _start_worker(counter: "Synchronized[int]") -> None:
    global _done
    _done = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends its workers
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """End this process when its parent dies, even of SIGKILL; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
