"""Answer requests with the models: what `heed.serve.application` offers over HTTP."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING

from fastapi.concurrency import run_in_threadpool

from heed.inference.segmentation import sentence_splitter
from heed.serve.detection import Detector
from heed.serve.errors import ApiError, stopping
from heed.serve.metrics import Metrics
from heed.serve.models import Models, Route
from heed.serve.schemas import Detection, DetectRequest, TranslateRequest, TranslateResponse
from heed.serve.settings import ServeSettings
from heed.serve.text import Document, html_document, text_document
from heed.serve.worker import Worker

if TYPE_CHECKING:
    from heed.inference.outputs import Translation

AUTO = "auto"
"""The source language that is to be detected."""


@dataclass(frozen=True)
class _Text:
    """A text of a request."""

    text: str
    detection: Detection
    route: Route | None
    """None if source and target are the same language: the text stays as it is."""


@dataclass(frozen=True)
class _Translated:
    """The translations of a text."""

    best: str
    alternatives: list[str]


class Service:
    """The models with their workers.

    Raises:
        HeedError: if sentences are to be split and sentencex is not installed.
    """

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        if settings.split_sentences:
            sentence_splitter("en")
        self.models = models
        self.settings = settings
        self.metrics = Metrics()
        self.detector = Detector(models.samples)
        self._workers: dict[str, Worker] = {}

    def start(self) -> None:
        """Start a worker for each model."""
        for route in self.models.routes:
            if route.model not in self._workers:
                worker = Worker(
                    route.model,
                    batch_sentences=self.settings.batch_sentences,
                    max_waiting=self.settings.max_waiting,
                    on_cpu=route.translator.model.device.type == "cpu",
                    on_batch=partial(self.metrics.add_batch, route.model),
                )
                self._workers[route.model] = worker
                self.metrics.watch_queue(route.model, worker.count_waiting)

    def stop(self) -> None:
        """Finish the accepted requests and stop the workers."""
        for worker in self._workers.values():
            worker.stop()
        self._workers.clear()

    @property
    def is_alive(self) -> bool:
        """Whether all workers accept jobs."""
        return bool(self._workers) and all(worker.is_alive for worker in self._workers.values())

    def worker(self, model: str) -> Worker:
        """Return the worker of a model.

        Raises:
            ApiError: if the server is stopping.
        """
        if model not in self._workers:
            raise stopping()
        return self._workers[model]

    def check_key(self, key: str | None) -> None:
        """Check the API key of a request, if the server asks for one.

        Raises:
            ApiError: if it is missing or wrong.
        """
        if not self.settings.api_keys:
            return
        if not key:
            raise ApiError(HTTPStatus.FORBIDDEN, "This server needs an API key: send it as api_key.")
        given = key.encode("utf-8", "surrogatepass")
        if not any(secrets.compare_digest(given, known.encode()) for known in self.settings.api_keys):
            raise ApiError(HTTPStatus.FORBIDDEN, "Invalid API key.")

    def detect(self, body: DetectRequest) -> list[Detection]:
        """Return the source languages of the models, the likeliest first."""
        self._check_size([body.q])
        return self._detect(body.q)

    async def translate(self, body: TranslateRequest) -> TranslateResponse:
        """Translate the texts of a request."""
        is_list = isinstance(body.q, list)
        given = body.q if isinstance(body.q, list) else [body.q]
        alternatives = body.alternatives or 0
        self._check_size(given)
        self._check_search(body, alternatives)
        texts = await run_in_threadpool(lambda: [self._text(text, body) for text in given])
        translated = await self._translate(texts, body, alternatives)
        best, others = [each.best for each in translated], [each.alternatives for each in translated]
        detected = [each.detection for each in texts]
        return TranslateResponse(
            translated_text=best if is_list else best[0],
            alternatives=None if not alternatives else others if is_list else others[0],
            detected_language=None if body.source != AUTO else detected if is_list else detected[0],
        )

    def _check_size(self, texts: Sequence[str]) -> None:
        limits = self.settings
        if len(texts) > limits.max_texts:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{len(texts):,} texts exceed the limit of {limits.max_texts:,}.")
        if (chars := sum(map(len, texts))) > limits.max_chars:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{chars:,} characters exceed the limit of {limits.max_chars:,}.")

    def _check_search(self, body: TranslateRequest, alternatives: int) -> None:
        limits = self.settings
        if alternatives > limits.max_alternatives:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"alternatives must be at most {limits.max_alternatives}.")
        if alternatives and body.format == "html":
            raise ApiError(HTTPStatus.BAD_REQUEST, "alternatives are for format=text: HTML has one translation.")
        if body.beam is not None and not alternatives < body.beam <= limits.max_beam:
            raise ApiError(
                HTTPStatus.BAD_REQUEST, f"beam must be from {alternatives + 1} (alternatives + 1) to {limits.max_beam}."
            )

    def _text(self, text: str, body: TranslateRequest) -> _Text:
        """Return a text with its language and its model."""
        if body.source == AUTO:
            detection = self._detect(text)[0]
        else:
            detection = Detection(language=self.models.find_language(body.source), confidence=100)
        source, target = detection.language, self.models.find_language(body.target)
        is_same = source == target and body.model is None
        return _Text(text, detection, None if is_same else self.models.find(source, target, body.model))

    def _detect(self, text: str) -> list[Detection]:
        sources = self.models.sources
        if len(sources) == 1:
            return [Detection(language=sources[0], confidence=100)]
        if missing := [language for language in sources if language not in self.detector.languages]:
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                f"This server cannot detect languages, because it has no sentences of {', '.join(missing)}: "
                "give source.",
            )
        return [
            Detection(language=language, confidence=round(100 * share, 1))
            for language, share in self.detector.detect(text, sources)
        ]

    async def _translate(self, texts: Sequence[_Text], body: TranslateRequest, alternatives: int) -> list[_Translated]:
        results = [_Translated(each.text, []) for each in texts]
        routes = list(dict.fromkeys(each.route for each in texts if each.route))
        documents = await run_in_threadpool(lambda: [self._document(each, body) for each in texts])
        count = sum(len(document.sentences) for document in documents)
        if count > self.settings.max_sentences:
            raise ApiError(
                HTTPStatus.BAD_REQUEST, f"{count:,} sentences exceed the limit of {self.settings.max_sentences:,}."
            )

        async def run(route: Route) -> None:
            rows = [row for row, each in enumerate(texts) if each.route == route]
            found = iter(await self._search(route, [documents[row] for row in rows], body.beam, alternatives))
            for row in rows:
                own = list(islice(found, len(documents[row].sentences)))
                results[row] = _versions(documents[row], own, alternatives)

        await asyncio.gather(*(run(route) for route in routes))
        return results

    def _document(self, text: _Text, body: TranslateRequest) -> Document:
        if text.route is None:
            return Document([], [], "")
        divide = html_document if body.format == "html" else text_document
        return divide(text.text, text.route.translator, split_sentences=self.settings.split_sentences)

    async def _search(
        self, route: Route, documents: Sequence[Document], beam: int | None, alternatives: int
    ) -> "list[list[Translation]]":
        """Return the translations of all sentences of some documents."""
        sentences = [sentence for document in documents for sentence in document.sentences]
        own_beam = getattr(route.translator.search, "beam", None)
        if beam is None and own_beam is not None and own_beam <= alternatives:
            beam = alternatives + 1
        return await self.worker(route.model).translate(route.translator, sentences, n_best=alternatives + 1, beam=beam)


def _versions(document: Document, found: "Sequence[Sequence[Translation]]", alternatives: int) -> _Translated:
    """Return the best translation of a document, and others of which each sentence has the next best translation.

    A sentence with fewer translations keeps its best one.
    """
    versions = [
        document.join([n_best[rank] if rank < len(n_best) else n_best[0] for n_best in found])
        for rank in range(alternatives + 1)
    ]
    best, *others = dict.fromkeys(versions)  # each once
    return _Translated(best, others)
