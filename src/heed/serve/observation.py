"""Request ids, the access log, and metrics for Prometheus."""

import logging
import re
import time
from http import HTTPStatus
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heed.serve.errors import error_response

LOG = logging.getLogger("heed.serve")

REQUEST_ID = "X-Request-ID"
VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Prometheus metrics of one application, in a separate registry.

    The label "path" is the path of the endpoint, so that clients cannot invent labels.
    """

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Counter("heed_requests", "Answered requests.", ["method", "path", "status"], registry=own)
        self.request_seconds = Histogram(
            "heed_request_seconds", "Time from a request to its answer.", ["path"], registry=own
        )
        self.sentences = Counter("heed_sentences", "Translated sentences.", ["model"], registry=own)
        text = "Sentences that a model translated together."
        self.batch_sentences = Histogram("heed_batch_sentences", text, ["model"], registry=own, buckets=BATCH_SIZES)
        self.batch_seconds = Histogram("heed_batch_seconds", "Time of a model for a batch.", ["model"], registry=own)
        text = "Sentences that are accepted and not answered yet."
        self.waiting = Gauge("heed_waiting_sentences", text, ["model"], registry=own)

    def add_batch(self, model: str, sentences: int, seconds: float) -> None:
        """Count a batch."""
        self.sentences.labels(model).inc(sentences)
        self.batch_sentences.labels(model).observe(sentences)
        self.batch_seconds.labels(model).observe(seconds)


def observation(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    """Give each request an id, return the id with the response, and record the response. Texts are not logged.

    An id from the client or a proxy is kept. An unexpected exception is logged and gives status 500.
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
            if not status:  # Do not tell the client about the server's files.
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
