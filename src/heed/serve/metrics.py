"""Metrics for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Counts what one application does, in a registry of its own.

    The path of a request is that of the endpoint, so that clients cannot make up labels.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("heed_requests", "Answered requests.", ["method", "path", "status"], registry=registry)
        self.request_seconds = Histogram(
            "heed_request_seconds", "Time from a request to its answer.", ["path"], registry=registry
        )
        self.sentences = Counter("heed_sentences", "Translated sentences.", ["model"], registry=registry)
        self.batch_sentences = Histogram(
            "heed_batch_sentences",
            "Sentences that a model translated together.",
            ["model"],
            registry=registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
        )
        self.batch_seconds = Histogram(
            "heed_batch_seconds", "Time of a model for a batch.", ["model"], registry=registry
        )
        self.waiting = Gauge(
            "heed_waiting_sentences", "Sentences that are accepted and not answered.", ["model"], registry=registry
        )

    def add_batch(self, model: str, sentences: int, seconds: float) -> None:
        """Count a batch."""
        self.sentences.labels(model).inc(sentences)
        self.batch_sentences.labels(model).observe(sentences)
        self.batch_seconds.labels(model).observe(seconds)
