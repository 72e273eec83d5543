"""The web application: LibreTranslate's API for heed's models."""

import tomllib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from heed import __version__
from heed.languages import language_name
from heed.plot.attention_map import TITLES
from heed.report.pages import render_template
from heed.serve import schemas
from heed.serve.attend import AttendRequest, AttendResponse, translate_and_attend
from heed.serve.errors import HANDLED, answer_error
from heed.serve.models import Models, ServedModel
from heed.serve.observation import REQUEST_ID, observation
from heed.serve.requests import body_schema, check_host, respond
from heed.serve.service import Service
from heed.serve.settings import ServeSettings

PAGES = Path(__file__).parent / "page"
ANY, BODY = "any request", "requests with a body"
ERRORS: dict[str, dict[int | str, dict[str, Any]]] = {
    kind: {int(status): {"model": schemas.ErrorResponse, "description": text} for status, text in errors.items()}
    for kind, errors in tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8")).items()
}
"""The errors of `ANY` and of `BODY`, as OpenAPI describes them."""


def create_app(models: Sequence[ServedModel], settings: ServeSettings | None = None) -> FastAPI:
    """Return the application. Its ``state.service`` is the `Service`. Errors: see `Models`."""
    settings = settings or ServeSettings()
    service = Service(Models(models), settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(
        title="heed",
        version=__version__,
        lifespan=lifespan,
        responses=ERRORS[ANY],
        docs_url=None,  # FastAPI's pages load scripts from other hosts
        redoc_url=None,
        dependencies=[Depends(check_host)],
        exception_handlers=dict.fromkeys(HANDLED, answer_error),
    )
    app.state.service = service
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(settings.allowed_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID],
            expose_headers=[REQUEST_ID, "Retry-After"],
        )
    app.add_middleware(observation, metrics=service.metrics)
    _add_endpoints(app, service)
    hidden: dict[str, Any] = {"response_class": HTMLResponse, "include_in_schema": False}
    # Of these pages, the first one requests the languages, models and limits from the server.
    titles = {kind: title for kind, (title, _) in TITLES.items()}
    page = render_template("page.html.j2", folder=PAGES, titles=titles)
    app.get("/", **hidden)(lambda: HTMLResponse(page, headers={"Content-Security-Policy": "frame-ancestors 'none'"}))
    app.get("/docs", **hidden)(lambda: render_template("api.html.j2", folder=PAGES, api=app.openapi()))
    app.get("/spec", include_in_schema=False)(app.openapi)  # LibreTranslate's name
    return app


def _add_endpoints(app: FastAPI, service: Service) -> None:
    models, settings = service.models, service.settings

    def reads(body: type[schemas.RequestBody]) -> dict[str, Any]:
        return {"responses": ERRORS[BODY], "openapi_extra": body_schema(body)}

    @app.post("/translate", tags=["translate"], response_model_exclude_none=True, **reads(schemas.TranslateRequest))
    async def translate(request: Request) -> schemas.TranslateResponse:
        """Translate a text, or several."""
        return await respond(service, request, schemas.TranslateRequest, service.translate)

    @app.post("/detect", tags=["translate"], **reads(schemas.DetectRequest))
    async def detect(request: Request) -> list[schemas.Detection]:
        """Detect the language of a text among the source languages of the server."""
        return await respond(service, request, schemas.DetectRequest, service.detect)

    @app.post("/words", tags=["words"], **reads(schemas.WordsRequest))
    async def words(request: Request) -> schemas.WordsResponse:
        """Return how probable the words of a translation are, and which ones may follow."""
        return await respond(service, request, schemas.WordsRequest, service.words)

    @app.post("/attend", tags=["attention"], response_model=AttendResponse, **reads(AttendRequest))
    async def attend(request: Request) -> Response:
        """Translate a sentence and return the attention weights of all layers and heads."""
        return await respond(service, request, AttendRequest, partial(translate_and_attend, service))

    def named(code: str) -> schemas.NamedLanguage:
        return schemas.NamedLanguage(code=code, name=language_name(code))

    @app.get("/languages", tags=["translate"])
    def languages() -> list[schemas.ServedLanguage]:
        """Return the languages and the directions."""
        codes = models.languages
        return [
            schemas.ServedLanguage(code=code, name=language_name(code), targets=models.targets(code)) for code in codes
        ]

    @app.get("/models", tags=["translate"])
    def model_descriptions() -> list[schemas.ModelDescription]:
        """Return the models. `/translate` accepts their names."""
        directions: dict[str, list[dict[schemas.SideName, str]]] = {name: [] for name in models.names}
        for route in models.routes:
            directions[route.model].append({"source": route.source, "target": route.target})
        return [schemas.ModelDescription(name=name, directions=own) for name, own in directions.items()]

    @app.get("/health", responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": schemas.ErrorResponse}}, tags=["server"])
    def health() -> dict[str, str]:
        """Return whether the server translates."""
        for model in models.names:
            service.worker(model)
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    def metrics() -> PlainTextResponse:
        """Return metrics for Prometheus."""
        return PlainTextResponse(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/frontend/settings", tags=["server"])
    def frontend_settings() -> schemas.FrontendSettings:
        """Return the settings that a web page needs."""
        first = models.routes[0]
        return schemas.FrontendSettings(
            char_limit=settings.max_chars,
            text_limit=settings.max_sentences,
            api_keys=bool(settings.api_keys),
            key_required=bool(settings.api_keys),
            language={"source": named(first.source), "target": named(first.target)},
        )
