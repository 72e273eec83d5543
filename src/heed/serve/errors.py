"""Errors of the API, in LibreTranslate's form: ``{"error": "one sentence"}``."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from heed.errors import HeedError


class ApiError(Exception):
    """An error that the client is told.

    Args:
        status: of HTTP.
        message: one sentence.
        retry_after: seconds after which the client may try again; None if that would not help.
    """

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


def stopping() -> ApiError:
    """Return the error of a server that accepts no more requests."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "The server is stopping.", retry_after=10)


def add_error_handlers(app: FastAPI) -> None:
    """Answer errors in LibreTranslate's form."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> JSONResponse:
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return error_response(error.status, error.message, headers)

    @app.exception_handler(HeedError)
    async def heed_error(request: Request, error: HeedError) -> JSONResponse:
        return error_response(HTTPStatus.BAD_REQUEST, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid_request(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(HTTPStatus.BAD_REQUEST, describe_problems(error.errors()))

    @app.exception_handler(ValidationError)
    async def invalid_body(request: Request, error: ValidationError) -> JSONResponse:
        return error_response(HTTPStatus.BAD_REQUEST, describe_problems(error.errors(include_url=False)))

    @app.exception_handler(ClientDisconnect)
    async def hung_up(request: Request, error: ClientDisconnect) -> JSONResponse:  # while it sent the body
        return error_response(HTTPStatus.BAD_REQUEST, "The client hung up.")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return error_response(error.status_code, str(error.detail), error.headers)


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error as a response. Lone surrogates of the client's text, which are not UTF-8, are escaped."""
    text = message.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status_code=status, headers=dict(headers or {}))


def describe_problems(problems: Sequence[Any]) -> str:
    """Return pydantic's errors as one line, without the values that the client sent."""
    return "Invalid request: " + "; ".join(_describe(problem) for problem in problems[:3]) + "."


def _describe(problem: Mapping[str, object]) -> str:
    location = problem["loc"]
    places = [str(part) for part in location] if isinstance(location, tuple) else []
    # A name or an index, but not pydantic's "list[…]", the alternative of a union.
    name = ".".join(place for place in places if place != "body" and place.replace("_", "").isalnum())
    if problem["type"] == "missing":
        return f"missing {name or 'body'} parameter"
    text = str(problem["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{name}: {text}" if name else text
