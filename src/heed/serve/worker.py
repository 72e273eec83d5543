"""A thread per model that translates the sentences of concurrent requests together."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

from heed.inference.outputs import Translation
from heed.inference.searches import Protect, TranslateOptions
from heed.inference.translator import Translator
from heed.serve.errors import ApiError

T = TypeVar("T")

_ON_CPU = threading.Lock()
"""Models on the CPU take turns, because each uses all cores."""


class Key(NamedTuple):
    """How sentences are translated. The jobs of a round have one key."""

    translator: Translator
    n_best: int = 1
    beam: int | None = None
    prefix: str = ""
    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    tag: str | None = None
    log_probs: bool = False
    alignments: bool = False
    protect: Protect = None

    def hypotheses(self, sentences: Sequence[str]) -> list[list[Translation]]:
        """Return the translations of sentences, with heed's own engine for constraints and log p of subwords."""
        translator, terms = self.translator, dict(self.terms)
        if self.prefix or terms or self.log_probs:
            translator = translator.with_own_engine()
        options: TranslateOptions = {
            "beam": self.beam,
            "prefix": self.prefix,
            "terms": terms,
            "tag": self.tag,
            "protect": self.protect,
        }
        return translator.hypotheses(sentences, n=self.n_best, alignments=self.alignments, **options)


@dataclass(eq=False)
class Job:
    """Sentences of a request to translate."""

    sentences: Sequence[str]
    key: "Key"
    done: list[list[Translation]] = field(default_factory=list)
    result: Future[list[list[Translation]]] = field(default_factory=Future)


class Worker:
    """Uses one model in a thread of its own.

    Jobs are translated in rounds. A round takes sentences from all waiting jobs that have the options of the oldest
    one, so that a short request does not wait for a long one. A round has at most ``translator.batch_tokens`` tokens,
    so that long sentences do not slow it down. The translator sorts its sentences by length and batches them.

    Args:
        batch_sentences: sentences per round.
        max_waiting: maximum number of waiting sentences. Further requests are refused.
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
        on_batch: Callable[[int, float], object] = lambda *_: None,
    ) -> None:
        self.batch_sentences = batch_sentences
        self.max_waiting = max_waiting
        self._turn: AbstractContextManager[Any] = _ON_CPU if on_cpu else nullcontext()
        self._on_batch = on_batch
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"heed-{name}")
        self._jobs: list[Job] = []
        """The jobs in order of arrival. Only the event loop changes the list."""
        self.waiting = 0
        """Number of sentences in unfinished requests."""

    async def translate(self, sentences: Sequence[str], key: Key) -> list[list[Translation]]:
        """Return the translations of each sentence. A cancelled task cancels it. Errors: `_accepted`."""
        job = Job(sentences, key)
        with self._accepted(len(sentences)):
            self._jobs.append(job)
            try:
                self._thread.submit(self._complete, job)
                return await asyncio.wrap_future(job.result)
            finally:
                self._jobs.remove(job)

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function that uses the model for one sentence, such as `Translator.attend`. Errors: `_accepted`."""

        def in_turn() -> T:
            with self._turn:
                return function()

        with self._accepted(1):
            return await asyncio.wrap_future(self._thread.submit(in_turn))

    def stop(self) -> None:
        """Finish the accepted requests, then end the thread."""
        self._thread.shutdown()

    @contextmanager
    def _accepted(self, sentences: int) -> Iterator[None]:
        """Count the sentences of a request as waiting, or raise an ApiError if too many sentences wait."""
        if self.waiting + sentences > self.max_waiting:
            message = "Slow down: too many sentences are waiting for this model."
            raise ApiError(message, HTTPStatus.TOO_MANY_REQUESTS, retry_after=2)
        self.waiting += sentences
        try:
            yield
        finally:
            self.waiting -= sentences

    def _complete(self, job: Job) -> None:
        """Translate in rounds until a job is finished or cancelled."""
        while not job.result.done():
            waiting = [each for each in list(self._jobs) if not each.result.done()]
            self._translate([each for each in waiting if each.key == waiting[0].key])

    def _translate(self, jobs: Sequence[Job]) -> None:
        """Translate some sentences of each job together, and deliver the results of complete jobs."""
        if not jobs:  # cancelled in the meantime
            return
        key = jobs[0].key
        try:
            remaining = (islice(job.sentences, len(job.done), None) for job in jobs)
            lengths = ((len(key.translator.tokenizer.encode_src([each])[0]) for each in own) for own in remaining)
            counts = fit(lengths, sentences=self.batch_sentences, tokens=key.translator.batch_tokens)
            parts = [job.sentences[len(job.done) :][:count] for job, count in zip(jobs, counts, strict=True)]
            found = iter(self._translations(list(chain.from_iterable(parts)), key))
        except Exception:
            # Run each job alone, so that only the job at fault fails.
            for job in jobs:
                _finish(job, partial(self._translations, job.sentences, key))
            return
        for job, part in zip(jobs, parts, strict=True):
            job.done += islice(found, len(part))
            if len(job.done) == len(job.sentences):
                _finish(job, partial(list, job.done))

    def _translations(self, sentences: Sequence[str], key: Key) -> list[list[Translation]]:
        if not sentences:
            return []
        start = time.perf_counter()
        with self._turn:
            found = key.hypotheses(sentences)
        self._on_batch(len(sentences), time.perf_counter() - start)
        return found


def _finish(job: Job, compute: Callable[[], list[list[Translation]]]) -> None:
    """Set the result or the exception of a function as the job's result, unless the job is cancelled."""
    if job.result.set_running_or_notify_cancel():
        try:
            job.result.set_result(compute())
        except Exception as error:
            job.result.set_exception(error)


def fit(lengths: Iterable[Iterable[int]], *, sentences: int, tokens: int) -> list[int]:
    """Return how many sentences of each job fit into a round. They are taken from the jobs in turn.

    The first sentence is taken even if it is longer than the round.

    Args:
        lengths: tokens of the sentences of each job.
        sentences, tokens: limits of the round.
    """
    remaining = [iter(job) for job in lengths]
    counts = [0] * len(remaining)
    turns = deque(range(len(remaining)))
    while turns and sum(counts) < sentences:
        job = turns.popleft()
        if (length := next(remaining[job], None)) is None:
            continue
        if length > tokens and any(counts):
            break
        tokens -= length
        counts[job] += 1
        turns.append(job)
    return counts
