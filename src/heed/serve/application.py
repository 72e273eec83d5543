"""The web application: LibreTranslate's API for heed's models."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request

from heed import __version__
from heed.serve.errors import ApiError, add_error_handlers
from heed.serve.languages import language_name
from heed.serve.models import Models, ServedModel
from heed.serve.requests import body_schema, read_body
from heed.serve.schemas import (
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

    app = FastAPI(title="heed", version=__version__, lifespan=lifespan, max_body_size=settings.max_body, redoc_url=None)
    app.state.service = service
    add_error_handlers(app)
    _add_translation(app, service)
    _add_descriptions(app, service)
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
        return await service.translate(await read_body(request, TranslateRequest))


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
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "The server is stopping.", retry_after=10)
        return Health()

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
