"""Handle the requests of `heed.serve.application` with the models."""

import asyncio
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from itertools import islice, starmap
from operator import itemgetter
from typing import Any

from fastapi.concurrency import run_in_threadpool

from heed.decoding import BeamSearch
from heed.documents.document import MARKUP, Document, split_document, text_of
from heed.errors import require
from heed.inference.outputs import Translation
from heed.inference.segmentation import sentence_rules
from heed.languages import base_language
from heed.serve.errors import ApiError
from heed.serve.models import Models, Route
from heed.serve.observation import Metrics
from heed.serve.schemas import (
    Detection,
    DetectRequest,
    TranslateRequest,
    TranslateResponse,
    WordProbability,
    WordsRequest,
    WordsResponse,
)
from heed.serve.settings import ServeSettings
from heed.serve.worker import Key, Worker

AUTO = "auto"
"""The source language code that requests detection."""
TEXT = "text"


@dataclass(frozen=True)
class _Text:
    """A text of a request."""

    detection: Detection
    route: Route | None
    """None if source and target are the same language, and the text is returned unchanged."""
    document: Document


class Service:
    """The models with their workers; raises a HeedError if it is to split sentences without sentencex."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        if settings.split_sentences:
            sentence_rules("en")
        self.models = models
        self.settings = settings
        self.metrics = Metrics()
        self._workers: dict[str, Worker] = {}

    def start(self) -> None:
        """Start a worker for each model."""
        for model, translator in {route.model: route.translator for route in self.models.routes}.items():
            worker = self._workers[model] = Worker(
                model,
                batch_sentences=self.settings.batch_sentences,
                max_waiting=self.settings.max_waiting,
                on_cpu=translator.engine.device.type == "cpu",
                on_batch=partial(self.metrics.add_batch, model),
            )
            self.metrics.waiting.labels(model).set_function(partial(getattr, worker, "waiting"))

    def stop(self) -> None:
        """Finish the accepted requests and stop the workers."""
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.stop()

    def worker(self, model: str) -> Worker:
        """Return the worker of a model, or raise an ApiError if the server is stopping."""
        if model not in self._workers:
            raise ApiError("The server is stopping.", HTTPStatus.SERVICE_UNAVAILABLE, retry_after=10)
        return self._workers[model]

    def check_key(self, key: str | None) -> None:
        """Raise an ApiError if the server requires an API key and ``key`` is missing or wrong."""
        if not self.settings.api_keys:
            return
        if not key:
            raise ApiError("This server needs an API key: send it as api_key.", HTTPStatus.FORBIDDEN)
        given = key.encode("utf-8", "surrogatepass")
        if not any(secrets.compare_digest(given, known.encode()) for known in self.settings.api_keys):
            raise ApiError("Invalid API key.", HTTPStatus.FORBIDDEN)

    def check_size(self, *texts: str) -> None:
        """Raise an ApiError if the number of texts or of their characters exceeds the limit."""
        if len(texts) > self.settings.max_sentences:
            raise ApiError(f"{len(texts):,} texts exceed the limit of {self.settings.max_sentences:,}.")
        if (chars := sum(map(len, texts))) > self.settings.max_chars:
            raise ApiError(f"{chars:,} characters exceed the limit of {self.settings.max_chars:,}.")

    def find_route(self, source: str, target: str, model: str | None) -> Route:
        """Return the model for the languages of a request, see `Models`."""
        return self.models.find(self.models.find_language(source), self.models.find_language(target), model)

    async def detect(self, body: DetectRequest) -> list[Detection]:
        """Return the source languages of the models, the likeliest first."""
        self.check_size(body.q)
        return await run_in_threadpool(self._detect, body.q)

    async def translate(self, body: TranslateRequest) -> TranslateResponse:
        """Translate the texts of a request."""
        given, shaped = (body.q, list) if isinstance(body.q, list) else ([body.q], itemgetter(0))
        # The sentences of a page have too many combinations. LibreTranslate offers no alternatives either.
        asked, limits = max(0, body.alternatives or 0), self.settings
        alternatives = 0 if body.format in MARKUP else asked
        self.check_size(*given)
        if asked >= limits.max_beam:
            raise ApiError(f"alternatives must be at most {limits.max_beam - 1}.")
        if body.beam is not None and not alternatives < body.beam <= limits.max_beam:
            raise ApiError(f"beam must be from {alternatives + 1} (alternatives + 1) to {limits.max_beam}.")
        texts = await run_in_threadpool(lambda: [self._text(content, body) for content in given])
        if (count := sum(len(text.document.sentences) for text in texts)) > limits.max_sentences:
            raise ApiError(f"{count:,} sentences exceed the limit of {limits.max_sentences:,}.")
        if body.prefix and count != 1:
            raise ApiError(f"prefix is for one sentence, and q has {count:,}.")
        versions = await self._versions(texts, body, alternatives + 1)
        best = [next(iter(each.values())) for each in versions]
        symptoms = [[*dict.fromkeys(name for each in own for name in each.symptoms)] for own in best]
        return TranslateResponse(
            translated_text=shaped([next(iter(each)) for each in versions]),
            alternatives=shaped([list(each)[1:] for each in versions]) if asked else None,
            detected_language=shaped([text.detection for text in texts]) if body.source == AUTO else None,
            symptoms=shaped(symptoms) if any(symptoms) else None,
            pieces=shaped([[piece for each in own for piece in each.pieces] for own in best])
            if body.log_probs
            else None,
            words=shaped([[word for each in own for word in each.words] for own in best]) if body.log_probs else None,
        )

    async def words(self, body: WordsRequest) -> WordsResponse:
        """Return the probabilities of the words of a translation, and of those that may follow."""
        self.check_size(body.q, body.translation)
        route, number = self.find_route(body.source, body.target, body.model), body.candidates
        pair = " ".join(body.q.split()), " ".join(body.translation.split())

        def compute() -> list[list[tuple[str, float]]]:
            following = route.translator.next_words(*pair, n=number) if number else []
            return [route.translator.score_words(*pair)[0], following]

        found = [
            [WordProbability(text=text, probability=math.exp(log_prob)) for text, log_prob in words]
            for words in await self.worker(route.model).call(compute)
        ]
        return WordsResponse(words=found[0], candidates=found[1])

    def _text(self, content: str, body: TranslateRequest) -> _Text:
        """Return a text with its language and its model, split into sentences."""
        if body.source == AUTO:
            detection = self._detect(text_of(content, body.format or TEXT))[0]
        else:
            detection = Detection(language=self.models.find_language(body.source), confidence=100)
        if body.model is None and detection.language == self.models.find_language(body.target):
            return _Text(detection, None, Document([content]))
        route = self.find_route(detection.language, body.target, body.model)
        by_rules = self.settings.split_sentences and not body.prefix
        document = split_document(content, body.format or TEXT, route.translator, by_rules=by_rules)
        return _Text(detection, route, document)

    def _detect(self, text: str) -> list[Detection]:
        """Return the source languages of the models by their probability, if the text is in one of them."""
        sources = {base_language(code): code for code in reversed(self.models.sources)}
        if len(sources) == 1:
            return [Detection(language=self.models.sources[0], confidence=100)]
        found = self._identifier.rank(text)
        return [Detection(language=sources[code], confidence=round(100 * share, 1)) for code, share in found]

    @cached_property
    def _identifier(self) -> Any:
        """py3langid, limited to the source languages of the models."""
        langid = require("py3langid.langid", "Language detection", "serve")
        identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
        languages = [*map(base_language, self.models.sources)]
        if unknown := [language for language in languages if language not in identifier.labels]:
            raise ApiError(f"This server cannot detect languages, because py3langid lacks {unknown[0]}: give source.")
        identifier.set_languages(languages)
        return identifier

    async def _versions(
        self, texts: list[_Text], body: TranslateRequest, n_best: int
    ) -> list[dict[str, list[Translation]]]:
        """Return the translations of each text, best first, with those of their sentences (`Document.versions`)."""
        terms = tuple((src, (tgt,) if isinstance(tgt, str) else tuple(tgt)) for src, tgt in body.terms.items())

        def key_of(route: Route, document: Document) -> Key:
            translator, beam = route.translator, body.beam
            if body.log_probs:
                _ = translator.model  # an export without one is refused
            own = translator.search
            wider = n_best if beam is None and isinstance(own, BeamSearch) and own.beam < n_best else beam
            aligned, protect = document.needs_alignments, document.protection(body.protect)
            return Key(translator, n_best, wider, body.prefix, terms, body.tag, body.log_probs, aligned, protect)

        asked = [(text.route, key_of(text.route, text.document)) if text.route else None for text in texts]

        async def search(route: Route, key: Key) -> Iterator[list[Translation]]:
            documents = [text.document for text, own in zip(texts, asked, strict=True) if own == (route, key)]
            sentences = [sentence for document in documents for sentence in document.sentences]
            return iter(await self.worker(route.model).translate(sentences, key))

        groups = list(dict.fromkeys(filter(None, asked)))
        found = dict(zip(groups, await asyncio.gather(*starmap(search, groups)), strict=True))
        documents = [(text.document, found[own] if own else iter(())) for text, own in zip(texts, asked, strict=True)]
        return [each.versions(list(islice(own, len(each.sentences))), n_best) for each, own in documents]
