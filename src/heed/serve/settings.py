"""Limits and options of the server."""

from dataclasses import dataclass, field

from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, Positive, validated


@validated("")
@dataclass(frozen=True)
class ServeSettings:
    """Limits and options of the server. The limits hold for each request unless stated otherwise."""

    max_chars: AtLeast1 = 10_000
    """Characters of all texts."""
    max_texts: AtLeast1 = 100
    """Texts."""
    max_sentences: AtLeast1 = 500
    """Sentences of all texts."""
    max_alternatives: AtLeast0 = 10
    """Alternative translations."""
    max_beam: AtLeast1 = 12
    """Beam size that a client may ask for."""
    max_body: AtLeast1 = 1_000_000
    """Bytes of the body."""
    max_waiting: AtLeast1 = 2_000
    """Sentences that wait for one model, over all requests."""
    batch_sentences: AtLeast1 = 64
    """Sentences, over all requests, that a model translates together."""
    timeout: Positive = 60.0
    """Seconds until a request is given up."""
    split_sentences: bool = True
    """Split lines into sentences. Sentences that are too long for the model are always split."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins (``https://example.org``) whose pages browsers let use the server; ``*`` for all."""
    hosts: frozenset[str] = frozenset()
    """Names and addresses that a request may give in its Host header. If empty, any."""
    api_keys: frozenset[str] = field(default=frozenset(), repr=False)
    """Accepted API keys. If empty, no key is required."""

    def __post_init__(self) -> None:
        if self.max_sentences > self.max_waiting:
            raise HeedError(
                f"max_sentences={self.max_sentences} must be at most max_waiting={self.max_waiting}: a larger request "
                "could never be accepted."
            )
        if self.max_alternatives >= self.max_beam:
            raise HeedError(
                f"max_alternatives={self.max_alternatives} must be below max_beam={self.max_beam}: the beam holds the "
                "best translation, too."
            )
