"""Errors of the API, in LibreTranslate's form: ``{"error": "one sentence"}``."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from heed.errors import HeedError


class ApiError(HTTPException):
    """An error to report to the client in one sentence.

    ``retry_after`` are the seconds after which the client may retry; None if retrying does not help.
    """

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST, *, retry_after: int | None = None) -> None:
        super().__init__(status, message, None if retry_after is None else {"Retry-After": str(retry_after)})


HANDLED = (HTTPException, HeedError, ValidationError, ClientDisconnect)
"""The exceptions that `answer_error` handles. ClientDisconnect happens while the body is read."""


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """Convert an exception to LibreTranslate's form, without the values that the client sent."""
    if isinstance(error, HTTPException):
        return error_response(error.status_code, str(error.detail), error.headers)
    text = str(error)
    if isinstance(error, ValidationError):
        problems = "; ".join(map(_describe, error.errors(include_url=False)[:3]))
        text = "Invalid request: " + re.sub(r"(\S+) (must be [^;]*); \1 must be", r"\1 \2 or", problems) + "."
    return error_response(HTTPStatus.BAD_REQUEST, text)


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error response. Lone surrogates from the client's text are escaped, because they are not UTF-8."""
    text = message.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": text}, status_code=status, headers=dict(headers or {}))


def _describe(problem: Mapping[str, Any]) -> str:
    # Keep names and indices, but not pydantic's "list[…]" for the alternatives of a union.
    name = ".".join(part for part in map(str, problem["loc"]) if part.replace("_", "").isalnum())
    if problem["type"] == "missing":
        return f"missing {name or 'body'} parameter"
    if problem["type"].endswith("too_short"):  # every minimum is 1
        return f"{name} must not be empty"
    text = re.sub(r"^[A-Z]\w+ should\b", "must", str(problem["msg"]).removeprefix("Value error, ").rstrip("."))
    text = text.replace(" after validation", "")
    text = re.sub("a valid (string|list)", r"a \1", re.sub("a valid dictionary.*", "a JSON object", text))
    return f"{name or 'the body'}{'' if text.startswith('must ') else ':'} {text}"
