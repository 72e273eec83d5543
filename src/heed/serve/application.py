"""The web application: LibreTranslate's API for heed's models."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from heed import __version__
from heed.inference.languages import language_name
from heed.serve.attend import attend_router
from heed.serve.errors import add_error_handlers, stopping
from heed.serve.middleware import REQUEST_ID, BodyLimit, HostCheck, Observation
from heed.serve.models import Models, ServedModel
from heed.serve.page import page_router
from heed.serve.requests import bearer_token, body_schema, read_body, time_limit, unless_disconnected
from heed.serve.schemas import (
    Detection,
    DetectRequest,
    Direction,
    ErrorResponse,
    FrontendSettings,
    Health,
    Language,
    LanguagePair,
    ModelDescription,
    NamedLanguage,
    TranslateRequest,
    TranslateResponse,
)
from heed.serve.service import Service
from heed.serve.settings import ServeSettings

ERRORS: dict[int | str, dict[str, Any]] = {
    HTTPStatus.BAD_REQUEST: {"model": ErrorResponse, "description": "The request is wrong."},
    HTTPStatus.FORBIDDEN: {"model": ErrorResponse, "description": "The API key is missing or wrong."},
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: {"model": ErrorResponse, "description": "The body is too large."},
    HTTPStatus.TOO_MANY_REQUESTS: {"model": ErrorResponse, "description": "Too much is waiting; see Retry-After."},
    HTTPStatus.SERVICE_UNAVAILABLE: {"model": ErrorResponse, "description": "Too slow, or stopping; see Retry-After."},
}


def create_app(models: Sequence[ServedModel], settings: ServeSettings | None = None) -> FastAPI:
    """Return the application that serves some models.

    The `Service` is its ``state.service``.

    Raises:
        HeedError: see `Models`.
    """
    settings = settings or ServeSettings()
    service = Service(Models(models), settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(title="heed", version=__version__, lifespan=lifespan, redoc_url=None)
    app.state.service = service
    app.add_middleware(BodyLimit, max_body=settings.max_body)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=sorted(settings.allowed_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID],
            expose_headers=[REQUEST_ID, "Retry-After"],
        )
    if settings.hosts:
        app.add_middleware(HostCheck, hosts=settings.hosts)
    app.add_middleware(Observation, metrics=service.metrics)
    add_error_handlers(app)
    _add_translation(app, service)
    _add_descriptions(app, service)
    app.include_router(attend_router(service, ERRORS))
    app.include_router(page_router())
    return app


def _add_translation(app: FastAPI, service: Service) -> None:
    @app.post(
        "/translate",
        response_model=TranslateResponse,
        response_model_exclude_none=True,
        responses=ERRORS,
        openapi_extra=body_schema(TranslateRequest),
        tags=["translate"],
    )
    async def translate(request: Request) -> TranslateResponse:
        """Translate a text, or several."""
        async with time_limit(service.settings.timeout):
            body = await read_body(request, TranslateRequest)
            service.check_key(body.api_key or bearer_token(request))
            return await unless_disconnected(request, service.translate(body))

    @app.post("/detect", responses=ERRORS, openapi_extra=body_schema(DetectRequest), tags=["translate"])
    async def detect(request: Request) -> list[Detection]:
        """Detect the language of a text among the source languages of the server."""
        async with time_limit(service.settings.timeout):
            body = await read_body(request, DetectRequest)
            service.check_key(body.api_key or bearer_token(request))
            return await run_in_threadpool(service.detect, body)


def _add_descriptions(app: FastAPI, service: Service) -> None:
    models, settings = service.models, service.settings

    @app.get("/languages", tags=["translate"])
    def languages() -> list[Language]:
        """Return the languages and the directions."""
        return [
            Language(code=code, name=language_name(code), targets=models.targets(code)) for code in models.languages
        ]

    @app.get("/models", tags=["translate"])
    def model_descriptions() -> list[ModelDescription]:
        """Return the models, whose names `/translate` accepts."""
        return [
            ModelDescription(
                name=name,
                directions=[
                    Direction(source=route.source, target=route.target)
                    for route in models.routes
                    if route.model == name
                ],
            )
            for name in models.names
        ]

    @app.get("/health", responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": ErrorResponse}}, tags=["server"])
    def health() -> Health:
        """Return whether the server translates."""
        if not service.is_alive:
            raise stopping()
        return Health()

    @app.get("/metrics", response_class=PlainTextResponse, tags=["server"])
    def metrics() -> PlainTextResponse:
        """Return metrics for Prometheus."""
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/frontend/settings", tags=["server"])
    def frontend_settings() -> FrontendSettings:
        """Return what a page needs to know of the server."""
        first = models.routes[0]
        source, target = (NamedLanguage(code=code, name=language_name(code)) for code in (first.source, first.target))
        return FrontendSettings(
            char_limit=settings.max_chars,
            api_keys=bool(settings.api_keys),
            key_required=bool(settings.api_keys),
            language=LanguagePair(source=source, target=target),
        )
