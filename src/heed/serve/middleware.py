"""The limit of bodies; the check of the host; request ids, the access log and metrics of requests."""

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


class BodyLimit:
    """Refuses larger bodies: at once if the client states the size, otherwise when it has sent too much."""

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self.app = app
        self.max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        error = ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body exceeds the limit of {self.max_body:,} bytes.")
        size = Headers(scope=scope).get("content-length", "0")
        if size.isdecimal() and int(size[:20]) > self.max_body:
            await error_response(error.status, error.message)(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body:
                raise error
            return message

        await self.app(scope, limited, send)


class HostCheck:
    """Refuses requests whose Host header has another name.

    A browser lets the pages of a site use every server that has the site's name. The owner of a name can point it at
    127.0.0.1 (DNS rebinding); its pages could then use a server that is meant for this machine only.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and _host_name(Headers(scope=scope).get("host", "")) not in self.hosts:
            message = "This server is for its own machine. To use it under another name, start it with --allow-origin."
            await error_response(HTTPStatus.MISDIRECTED_REQUEST, message)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _host_name(host: str) -> str | None:
    """Return the name or address of a Host header, without the port; None if there is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


class Observation:
    """Gives each request an id, which the answer repeats, and records the answer. Texts are not logged.

    An id that the client or a proxy sends is kept. An unexpected exception is logged, and answered with status 500.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
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
            await self.app(scope, receive, send_with_id)
        except Exception:
            LOG.exception("%s failed", request_id)
            if not status:  # The client learns nothing about the server's files.
                response = error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed: its log says why.")
                await response(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in METHODS else "other"
            path = getattr(scope.get("route"), "path", "unknown")
            self.metrics.add_request(method, path, status, seconds)
            LOG.info("%s %s %s %d %.3f s", request_id, method, path, status, seconds)
