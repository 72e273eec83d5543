"""64-bit digests of sentences and pairs. They identify text without storing it, and sort pairs into random order."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from heed.characters import normalized
from heed.data.text.source import Sentences

Digests = npt.NDArray[np.uint64]
"""Digests of text. Among 10 million different pairs, the probability of any collision is 3 in a million."""


def text_digests(texts: Iterable[str]) -> Digests:
    """Return the digest of each text."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8")


def pair_digests(block: Sentences) -> Digests:
    """Return the digest of each pair."""
    return text_digests(f"{src}\n{tgt}" for src, tgt in zip(block.src, block.tgt, strict=True))


def source_digests(sources: Iterable[str]) -> Digests:
    """Return the sorted digests of the distinct sentences as they are compared, see `normalized`."""
    return np.unique(text_digests(map(normalized, sources)))


def are_in(digests: Digests, sorted_digests: Digests) -> npt.NDArray[np.bool_]:
    """Return whether each digest is one of ``sorted_digests``."""
    if not len(sorted_digests):
        return np.zeros(len(digests), np.bool_)
    places = np.searchsorted(sorted_digests, digests).clip(max=len(sorted_digests) - 1)
    return sorted_digests[places] == digests


def mixed(digests: Digests, numbers: npt.NDArray[np.integer]) -> Digests:
    """Return a digest of each (digest, number) pair; number 0 returns the digest unchanged."""
    numbers = numbers.astype(np.uint64)
    # Multiples of 2⁶⁴ / golden ratio are spread evenly over the 64-bit integers.
    values = digests + numbers * np.uint64(0x9E3779B97F4A7C15)
    # The finaliser of MurmurHash3: every input bit affects every output bit.
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.where(numbers == 0, digests, values ^ (values >> np.uint64(33)))


def set_digest(digests: Digests) -> str:
    """Return a digest of the digests that does not depend on their order."""
    ones = np.ones(len(digests), dtype=np.uint64)
    sums = [len(digests), int(digests.sum(dtype=np.uint64)), int(mixed(digests, ones).sum(dtype=np.uint64))]
    return hashlib.blake2b(repr(sums).encode(), digest_size=16).hexdigest()


def text_digest(*texts: Sentences) -> str:
    """Return a digest of the sentences of evaluation sets and of their order, the same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        digest.update(f"{len(text)} pairs\n".encode())
        for sentences in (text.src, text.tgt):
            digest.update(("\n".join(sentences) + "\n\n").encode())
    return digest.hexdigest()
