"""A thread per model that translates the sentences of concurrent requests together."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from heed.inference.outputs import Translation
from heed.inference.translator import Translator
from heed.serve.errors import ApiError, stopping

T = TypeVar("T")

_ON_CPU = threading.Lock()
"""Models on the CPU take turns, because one uses all cores."""


@dataclass(eq=False)
class Job(Generic[T]):
    """What a request wants from a model."""

    size: int
    """Sentences, for the limit of waiting ones."""
    compute: Callable[[], T]
    """Computes the result in the worker's thread."""
    result: Future[T] = field(default_factory=Future)


@dataclass(eq=False)
class TranslationJob(Job[list[list[Translation]]]):
    """Sentences to translate. Jobs with equal keys, which have the same translator and options, share batches."""

    sentences: Sequence[str] = field(kw_only=True)
    key: tuple[Translator, int, int | None] = field(kw_only=True)
    """The translator, the number of translations of a sentence, and the beam size."""
    done: list[list[Translation]] = field(default_factory=list)


class Worker:
    """Runs the jobs of one model in a thread of its own.

    Each round takes sentences of all waiting jobs with the options of the oldest one, so that a short request does not
    wait for the end of a long one. The translator sorts them by length and divides them into its own batches. A round
    has at most the tokens of one batch, ``translator.batch_tokens``, so that long sentences do not make it slow.

    Args:
        batch_sentences: sentences per round.
        max_waiting: sentences that may wait. Further jobs are refused.
        on_cpu: whether the model shares the CPU with other models.
        on_batch: called after each round with its sentences and seconds.
    """

    def __init__(
        self,
        name: str,
        *,
        batch_sentences: int,
        max_waiting: int,
        on_cpu: bool = True,
        on_batch: Callable[[int, float], object] | None = None,
    ) -> None:
        self.batch_sentences = batch_sentences
        self.max_waiting = max_waiting
        self._turn: AbstractContextManager[Any] = _ON_CPU if on_cpu else nullcontext()
        self._on_batch = on_batch
        self._jobs: deque[Job[Any]] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"heed-{name}", daemon=True)
        self._thread.start()

    def count_waiting(self) -> int:
        """Return the number of sentences of jobs that are not finished."""
        return self._waiting

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs and accepts jobs."""
        return self._thread.is_alive() and not self._stopping

    async def translate(
        self, translator: Translator, sentences: Sequence[str], *, n_best: int = 1, beam: int | None = None
    ) -> list[list[Translation]]:
        """Return the ``n_best`` translations of each sentence. If the task is cancelled, so is the job.

        Raises:
            ApiError: if too many sentences wait, or the server stops.
        """
        key = translator, n_best, beam
        alone = partial(self._translations, sentences, *key)
        return await self._submit(TranslationJob(len(sentences), alone, sentences=sentences, key=key))

    async def call(self, function: Callable[[], T], *, size: int = 1) -> T:
        """Run a function that uses the model in the worker's thread, for example `Translator.attend`.

        Args:
            size: sentences that it processes.

        Raises:
            ApiError: if too many sentences wait, or the server stops.
        """
        return await self._submit(Job(size, function))

    def stop(self) -> None:
        """Finish the accepted jobs, then end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    async def _submit(self, job: Job[T]) -> T:
        with self._changed:
            if not self.is_alive:
                raise stopping()
            if self._waiting + job.size > self.max_waiting:
                message = "Slow down: too many sentences wait for this model."
                raise ApiError(message, HTTPStatus.TOO_MANY_REQUESTS, retry_after=2)
            self._waiting += job.size
            self._jobs.append(job)
            self._changed.notify()
        return await asyncio.wrap_future(job.result)

    def _run(self) -> None:
        while jobs := self._next_jobs():
            if together := [job for job in jobs if isinstance(job, TranslationJob)]:
                self._translate(together)
            else:
                with self._turn:
                    self._finish(jobs[0], jobs[0].compute)

    def _next_jobs(self) -> list[Job[Any]]:
        """Return the oldest job and those that may share a batch with it; none to end the thread."""
        with self._changed:
            while True:
                for job in [job for job in self._jobs if job.result.done()]:
                    self._remove(job)
                if self._jobs:
                    break
                if self._stopping:
                    return []
                self._changed.wait()
            first = self._jobs[0]
            if not isinstance(first, TranslationJob):
                return [first]
            return [job for job in self._jobs if isinstance(job, TranslationJob) and job.key == first.key]

    def _remove(self, job: Job[Any]) -> None:
        with self._changed:
            self._jobs.remove(job)
            self._waiting -= job.size

    def _finish(self, job: Job[T], compute: Callable[[], T]) -> None:
        """Give a job the result of a function, or its exception, and remove it. A cancelled job gets nothing."""
        if job.result.set_running_or_notify_cancel():
            try:
                job.result.set_result(compute())
            except Exception as error:
                job.result.set_exception(error)
        self._remove(job)

    def _translate(self, jobs: list[TranslationJob]) -> None:
        """Translate some sentences of each job together, and give the jobs that are complete their results."""
        translator, n_best, beam = jobs[0].key
        remaining = [len(job.sentences) - len(job.done) for job in jobs]
        shares = divide(self.batch_sentences, remaining)
        parts = [job.sentences[len(job.done) : len(job.done) + share] for job, share in zip(jobs, shares, strict=True)]
        lengths = [[len(ids) for ids in translator.tokenizer.encode_src(part)] for part in parts]
        parts = [part[:count] for part, count in zip(parts, fit(translator.batch_tokens, lengths), strict=True)]
        try:
            found = iter(self._translations(list(chain.from_iterable(parts)), translator, n_best, beam))
        except Exception:
            # Alone, only the job at fault fails.
            for job in jobs:
                self._finish(job, job.compute)
            return
        for job, part in zip(jobs, parts, strict=True):
            job.done += islice(found, len(part))
            if len(job.done) == len(job.sentences):
                self._finish(job, partial(list, job.done))

    def _translations(
        self, sentences: Sequence[str], translator: Translator, n_best: int, beam: int | None
    ) -> list[list[Translation]]:
        if not sentences:
            return []
        start = time.perf_counter()
        with self._turn:
            found = translator.translate(sentences, n_best=n_best, beam=beam)
        if self._on_batch:
            self._on_batch(len(sentences), time.perf_counter() - start)
        return found


def divide(total: int, wanted: Sequence[int]) -> list[int]:
    """Divide a number of places among jobs as evenly as possible, but give none more than it wants.

    The first jobs get what does not divide evenly. The places may not suffice for one each.
    """
    shares = [0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for position, index in enumerate(order):
        shares[index] = min(wanted[index], -(-total // (len(order) - position)))
        total -= shares[index]
    return shares


def fit(budget: int, lengths: Sequence[Sequence[int]]) -> list[int]:
    """Return how many sentences of each job fit into a number of tokens, taken from the jobs in turn.

    The first sentence is taken even if it is longer.

    Args:
        lengths: tokens of the sentences of each job.
    """
    counts = [0] * len(lengths)
    for position in range(max(map(len, lengths))):
        for index, job in enumerate(lengths):
            if position < len(job):
                if job[position] > budget and any(counts):
                    return counts
                budget -= job[position]
                counts[index] += 1
    return counts
