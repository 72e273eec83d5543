"""The limit of bodies; the check of the host; request ids, the access log and metrics of requests.

Each function wraps an ASGI application, and passes on what is no HTTP request.
"""

import logging
import re
import time
from collections.abc import Collection
from http import HTTPStatus
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heed.serve.errors import ApiError, error_response
from heed.serve.metrics import Metrics

LOG = logging.getLogger("heed.serve")

REQUEST_ID = "X-Request-ID"
VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def body_limit(app: ASGIApp, max_body: int) -> ASGIApp:
    """Refuse larger bodies: at once if the client states the size, otherwise when it has sent too much."""
    message = f"The body exceeds the limit of {max_body:,} bytes."

    async def limited_app(scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def limited_receive() -> Message:
            nonlocal received
            event = await receive()
            received += len(event.get("body", b""))
            if received > max_body:
                raise ApiError(message, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return event

        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        size = Headers(scope=scope).get("content-length", "0")
        if size.isdecimal() and int(size[:20]) > max_body:
            await error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)(scope, receive, send)
        else:
            await app(scope, limited_receive, send)

    return limited_app


def host_check(app: ASGIApp, hosts: Collection[str]) -> ASGIApp:
    """Refuse requests whose Host header has another name.

    A browser lets the pages of a site use every server that has the site's name. The owner of a name can point it at
    127.0.0.1 (DNS rebinding); its pages could then use a server that is meant for this machine only.
    """
    message = "This server is for its own machine. To use it under another name, start it with --allow-origin."

    async def checked_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _host_name(Headers(scope=scope).get("host", "")) not in hosts:
            await error_response(HTTPStatus.MISDIRECTED_REQUEST, message)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked_app


def _host_name(host: str) -> str | None:
    """Return the name or address of a Host header, without the port; None if there is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def observation(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    """Give each request an id, which the answer repeats, and record the answer. Texts are not logged.

    An id that the client or a proxy sends is kept. An unexpected exception is logged, and answered with status 500.
    """

    async def observed_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if VALID_ID.fullmatch(given) else uuid4().hex
        start = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        try:
            await app(scope, receive, send_with_id)
        except Exception:
            LOG.exception("%s failed", request_id)
            if not status:  # The client learns nothing about the server's files.
                response = error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed: its log says why.")
                await response(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in METHODS else "other"
            path = getattr(scope.get("route"), "path", "unknown")
            metrics.requests.labels(method, path, status).inc()
            metrics.request_seconds.labels(path).observe(seconds)
            LOG.info("%s %s %s %d %.3f s", request_id, method, path, status, seconds)

    return observed_app
