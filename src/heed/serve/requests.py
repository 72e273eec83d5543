"""Read the body of a request, JSON or a form, into a model of pydantic."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel

from heed.serve.errors import ApiError

T = TypeVar("T")
Body = TypeVar("Body", bound=BaseModel)

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def body_schema(cls: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI: an endpoint that reads it by `read_body` has no other."""
    schema = cls.model_json_schema(ref_template="#/components/schemas/{model}")
    kinds = ("application/json", *FORMS[:1])
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


async def read_body(request: Request, cls: type[Body]) -> Body:
    """Return the body as an instance of ``cls``.

    Like LibreTranslate, read JSON if the content type says so; otherwise a form, or the parameters of the URL.

    Raises:
        ApiError: if it is not JSON.
        pydantic.ValidationError: if fields are missing or wrong.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return cls.model_validate(_read_json(await request.body()))
    form = await request.form(max_files=0) if kind in FORMS else {}
    return cls.model_validate(_fields(cls, {**request.query_params, **form}))


def bearer_token(request: Request) -> str | None:
    """Return the token of the header ``Authorization: Bearer TOKEN``; None if there is none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Cancel what takes longer.

    Raises:
        ApiError: if it did.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"The request took longer than {seconds:g} s.", retry_after=10
        ) from error


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine; cancel it if the client hangs up.

    Raises:
        ApiError: if the client hung up. Nobody receives it.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(HTTPStatus.BAD_REQUEST, "The client hung up.")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    """Wait until the client of a request, whose body was read, has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "Invalid request: the body is not JSON.") from error


def _fields(cls: type[BaseModel], form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form, with the line breaks of a text as in the JSON API: browsers send CR LF."""
    known = {name: value for name, value in form.items() if name in cls.model_fields}
    if isinstance(text := known.get("q"), str):
        known["q"] = text.replace("\r\n", "\n").replace("\r", "\n")
    return known
