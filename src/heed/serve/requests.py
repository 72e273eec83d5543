"""Read the body of a request, JSON or a form, into a model of pydantic, and answer in time."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request

from heed.serve.errors import ApiError
from heed.serve.schemas import RequestBody
from heed.serve.service import Service

Answer = TypeVar("Answer")
Body = TypeVar("Body", bound=RequestBody)

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def body_schema(cls: type[RequestBody]) -> dict[str, Any]:
    """Return the description of a body for OpenAPI: an endpoint that reads it by `respond` has no other."""
    schema = cls.model_json_schema(ref_template="#/components/schemas/{model}")
    kinds = ("application/json", *FORMS[:1])
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


async def respond(
    service: Service, request: Request, cls: type[Body], work: Callable[[Body], Awaitable[Answer]]
) -> Answer:
    """Read the body of a request, check its API key, and return the result of ``work``.

    The work is cancelled if the client hangs up, or after the server's time limit.

    Raises:
        ApiError: if the body is not JSON, the key is wrong, the time is over, or the client, which then receives
            nothing, hung up.
        pydantic.ValidationError: if fields are missing or wrong.
    """
    seconds = service.settings.timeout
    try:
        async with asyncio.timeout(seconds):
            body = await _read_body(request, cls)
            service.check_key(body.api_key or _bearer_token(request))
            return await _unless_disconnected(request, work(body))
    except TimeoutError as error:
        message = f"The request took longer than {seconds:g} s."
        raise ApiError(message, HTTPStatus.SERVICE_UNAVAILABLE, retry_after=10) from error


async def _read_body(request: Request, cls: type[Body]) -> Body:
    """Return the body as an instance of ``cls``.

    Like LibreTranslate, read JSON if the content type says so; otherwise a form, or the parameters of the URL.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        body = await request.body()
        try:
            content = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ApiError("Invalid request: the body is not JSON.") from error
        return cls.model_validate(content)
    form = await request.form(max_files=0) if kind in FORMS else {}
    return cls.model_validate(_with_line_feeds({**request.query_params, **form}))


def _with_line_feeds(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form, with the line breaks of a text as in the JSON API: browsers send CR LF."""
    text = form.get("q")
    return {**form, "q": text.replace("\r\n", "\n").replace("\r", "\n")} if isinstance(text, str) else {**form}


def _bearer_token(request: Request) -> str | None:
    """Return the token of the header ``Authorization: Bearer TOKEN``; None if there is none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


async def _unless_disconnected(request: Request, work: Awaitable[Answer]) -> Answer:
    """Return the result of an awaitable; cancel it if the client hangs up."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError("The client hung up.")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


async def _disconnected(request: Request) -> None:
    """Wait until the client of a request, whose body was read, has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
