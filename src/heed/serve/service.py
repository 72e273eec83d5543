"""Answer requests with the models: what `heed.serve.application` offers over HTTP."""

from http import HTTPStatus

from starlette.concurrency import run_in_threadpool

from heed.inference.outputs import Translation
from heed.serve.errors import ApiError
from heed.serve.models import Models, Route
from heed.serve.schemas import TranslateRequest, TranslateResponse
from heed.serve.settings import ServeSettings
from heed.serve.text import Line, join_text, sentences_of, split_text
from heed.serve.worker import Worker


class Service:
    """The models with their workers."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models = models
        self.settings = settings
        self._workers: dict[str, Worker] = {}

    def start(self) -> None:
        """Start a worker for each model."""
        for route in self.models.routes:
            if route.model not in self._workers:
                self._workers[route.model] = Worker(
                    route.model,
                    batch_sentences=self.settings.batch_sentences,
                    max_waiting=self.settings.max_waiting,
                    on_cpu=route.translator.model.device.type == "cpu",
                )

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
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "The server is stopping.", retry_after=10)
        return self._workers[model]

    async def translate(self, body: TranslateRequest) -> TranslateResponse:
        """Translate the texts of a request."""
        texts = [body.q] if isinstance(body.q, str) else body.q
        source, target = self.models.find_language(body.source), self.models.find_language(body.target)
        route = self.models.find(source, target, body.model)
        translated = await self._translate_texts(route, texts)
        return TranslateResponse(translated_text=translated[0] if isinstance(body.q, str) else translated)

    async def _translate_texts(self, route: Route, texts: list[str]) -> list[str]:
        translator = route.translator
        documents: list[list[Line]] = await run_in_threadpool(
            lambda: [split_text(text, translator, sentences=self.settings.split_sentences) for text in texts]
        )
        sentences = [sentences_of(lines) for lines in documents]
        found = await self.worker(route.model).translate(translator, [each for own in sentences for each in own])
        best: list[Translation] = [n_best[0] for n_best in found]
        translated, start = [], 0
        for lines, own in zip(documents, sentences, strict=True):
            translated.append(join_text(lines, best[start : start + len(own)], route.target))
            start += len(own)
        return translated
