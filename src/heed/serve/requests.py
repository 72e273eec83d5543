"""Read the body of a request (JSON or a form) into a pydantic model, and respond within the time limit."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request
from starlette.datastructures import MultiDict
from starlette.types import Message

from heed.serve.errors import ApiError
from heed.serve.schemas import RequestBody
from heed.serve.service import Service

Answer = TypeVar("Answer")
Body = TypeVar("Body", bound=RequestBody)

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def body_schema(cls: type[RequestBody]) -> dict[str, Any]:
    """Return the OpenAPI description of a body. Endpoints that use `respond` need it."""
    schema = cls.model_json_schema(ref_template="#/components/schemas/{model}")
    kinds = ("application/json", *FORMS[:1])
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


async def check_host(request: Request) -> None:
    """Raise an ApiError if the Host header is not one of the hosts in the server's settings.

    This prevents DNS rebinding: the owner of a site can point its name at 127.0.0.1, and a browser would then let the
    site's pages use a server that is meant for this machine only.
    """
    hosts = request.app.state.service.settings.hosts
    try:
        name = urlsplit(f"//{request.headers.get('host', '')}").hostname
    except ValueError:
        name = None
    if hosts and name not in hosts:
        message = "This server is for its own machine only. To use it under another name, start it with --allow-origin."
        raise ApiError(message, HTTPStatus.MISDIRECTED_REQUEST)


async def respond(
    service: Service, request: Request, cls: type[Body], work: Callable[[Body], Awaitable[Answer]]
) -> Answer:
    """Read the body of a request, check its API key, and return the result of ``work``.

    The work is cancelled if the client disconnects, or after the server's time limit.

    Raises:
        ApiError: if the body is too large or not JSON, the key is wrong, the time limit is exceeded, or the client has
            disconnected.
        pydantic.ValidationError: if fields are missing or wrong.
    """
    seconds = service.settings.timeout
    try:
        async with asyncio.timeout(seconds):
            body = cls.model_validate(await _read_fields(_limited(request, service.settings.max_body)))
            service.check_key(body.api_key or _bearer_token(request))
            return await _unless_disconnected(request, work(body))
    except TimeoutError as error:
        message = f"The request took longer than {seconds:g} s."
        raise ApiError(message, HTTPStatus.SERVICE_UNAVAILABLE, retry_after=10) from error


def _limited(request: Request, max_body: int) -> Request:
    """Return the request with a limit on the bytes of its body."""
    received = 0

    async def receive() -> Message:
        nonlocal received
        event = await request.receive()
        received += len(event.get("body", b""))
        if received > max_body:
            raise ApiError(f"The body exceeds the limit of {max_body:,} bytes.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return event

    return Request(request.scope, receive)


async def _read_fields(request: Request) -> Any:
    """Return the fields: JSON, which `curl -d` calls a form; a form; or URL parameters. A repeated field is a list."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == "application/json" or kind.endswith("+json") or body.lstrip().startswith(b"{"):
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ApiError("Invalid request: the body is not JSON.") from error
    try:
        query, form = request.scope["query_string"].decode(), body.decode() if kind in FORMS else ""
        sent: list[Any] = [_url_encoded(query), _url_encoded(form if kind == FORMS[0] else "")]
        if kind == FORMS[1]:
            sent.append(await request.form(max_files=0))
    except UnicodeDecodeError as error:
        raise ApiError("Invalid request: the form is not UTF-8.") from error
    fields = {name: list(map(_with_line_feeds, part.getlist(name))) for part in sent for name in part}
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def _url_encoded(text: str) -> MultiDict:
    """Return the fields of a form or a query string; raise an ApiError if an "&" in a value is not escaped."""
    fields = MultiDict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    if any(re.search(r"\s", name) for name in fields) or (text and not all("=" in part for part in text.split("&"))):
        raise ApiError("Invalid request: a form is NAME=VALUE&NAME=VALUE: encode & as %26, or use --data-urlencode.")
    return fields


def _with_line_feeds(text: Any) -> Any:
    """Return a text without the carriage returns that browsers send."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _bearer_token(request: Request) -> str | None:
    """Return the token of the header ``Authorization: Bearer TOKEN``, or None."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


async def _unless_disconnected(request: Request, work: Awaitable[Answer]) -> Answer:
    """Return the result of an awaitable; cancel it if the client disconnects. The body must have been read."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError("The client hung up.")
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
