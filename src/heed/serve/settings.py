"""Limits and options of the server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, get_args, get_type_hints
from urllib.parse import urlsplit

from typing_extensions import Doc

from heed.errors import HeedError, argument
from heed.options import AtLeast1, Positive, validated


@validated("")
@dataclass(frozen=True)
class ServeSettings:
    """Limits and options of the server."""

    max_chars: Annotated[AtLeast1, Doc("characters per request")] = 10_000
    max_sentences: Annotated[AtLeast1, Doc("texts and sentences per request")] = 500
    max_beam: Annotated[AtLeast1, Doc("beam size that a client may request, and translations of a sentence")] = 12
    max_body: Annotated[AtLeast1, Doc("bytes per request")] = 1_000_000
    max_waiting: Annotated[AtLeast1, Doc("sentences that may wait for a model; then status 429")] = 2_000
    batch_sentences: Annotated[AtLeast1, Doc("sentences of all requests that a model translates together")] = 64
    timeout: Annotated[Positive, Doc("seconds after which a request is answered with status 503")] = 60.0

    split_sentences: bool = True
    """Split lines into sentences. Sentences that are too long for the model are split anyway."""
    allowed_origins: frozenset[str] = frozenset()
    """Origins (``https://example.org``) whose pages may use the server (CORS); ``*`` for all."""
    hosts: frozenset[str] = frozenset()
    """Accepted names and addresses in the Host header. If empty, all are accepted."""
    api_keys: frozenset[str] = field(default=frozenset(), repr=False)
    """Accepted API keys. If empty, no key is required."""

    def __post_init__(self) -> None:
        if self.max_sentences > self.max_waiting:
            raise HeedError(
                f"{argument('max_sentences', self.max_sentences)} must be at most "
                f"{argument('max_waiting', self.max_waiting)}: a larger request could never be accepted."
            )


HINTS = get_type_hints(ServeSettings, include_extras=True).items()
LIMITS = {name: mark.documentation for name, hint in HINTS for mark in get_args(hint) if isinstance(mark, Doc)}
"""The limits by name, with their descriptions."""


def accepted_hosts(host: str, origins: Sequence[str]) -> frozenset[str]:
    """Return the names in the Host header that a server bound to ``host`` accepts: on loopback few, otherwise all."""
    try:
        is_local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # another name
        is_local = False
    if not is_local or "*" in origins:
        return frozenset()
    sites = (urlsplit(origin).hostname for origin in origins)
    return frozenset({"localhost", "127.0.0.1", "::1", host, *filter(None, sites)})
