"""Metrics for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Counts what one application does, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "heed_requests", "Answered requests.", ["method", "path", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "heed_request_seconds", "Time from a request to its answer.", ["path"], registry=self.registry
        )
        self._sentences = Counter("heed_sentences", "Translated sentences.", ["model"], registry=self.registry)
        self._batch_sentences = Histogram(
            "heed_batch_sentences",
            "Sentences that a model translated together.",
            ["model"],
            registry=self.registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
        )
        self._batch_seconds = Histogram(
            "heed_batch_seconds", "Time of a model for a batch.", ["model"], registry=self.registry
        )
        self._waiting = Gauge(
            "heed_waiting_sentences", "Sentences that are accepted and not answered.", ["model"], registry=self.registry
        )

    def add_request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count an answered request.

        Args:
            path: of the endpoint, so that clients cannot make up labels.
        """
        self._requests.labels(method, path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def add_batch(self, model: str, sentences: int, seconds: float) -> None:
        """Count a batch."""
        self._sentences.labels(model).inc(sentences)
        self._batch_sentences.labels(model).observe(sentences)
        self._batch_seconds.labels(model).observe(seconds)

    def watch_queue(self, model: str, waiting: Callable[[], float]) -> None:
        """Report the sentences that wait for a model."""
        self._waiting.labels(model).set_function(waiting)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)
