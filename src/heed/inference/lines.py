"""Convert sentences to token ids, with errors that name a line."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from heed.errors import HeedError, argument

T = TypeVar("T")

SURROGATE = re.compile("[\ud800-\udfff]")


class LineError(HeedError):
    """An error in the line ``number``, counted from 1, of the input. Its message is ``Line N`` and the problem."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"Line {number}{problem}")
        self.number = number
        self.problem = problem


@contextmanager
def renumbered(number: Callable[[int], int]) -> Iterator[None]:
    """Map line numbers in errors, for input that was split before translation or comes in blocks."""
    try:
        yield
    except LineError as error:
        raise LineError(number(error.number), error.problem) from error


def as_list(sentences: str | Iterable[str]) -> list[str]:
    """Return sentences as a list; a single string is one sentence."""
    return [sentences] if isinstance(sentences, str) else list(sentences)


def blocks(lines: Iterator[T], size: int, is_ready: Callable[[], bool]) -> Iterator[list[T]]:
    """Yield blocks of up to ``size`` lines. A block ends earlier where no further line ``is_ready``."""
    for first in lines:
        block = [first]
        while len(block) < size and is_ready() and (following := list(islice(lines, 1))):
            block += following
        yield block


def check_pairs(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raise a HeedError unless the numbers of sources and targets are equal."""
    if len(sources) != len(targets):
        raise HeedError(f"{len(sources)} sources and {len(targets)} targets are not pairs: give one target per source.")


def encode_lines(
    encode: Callable[[Sequence[str]], list[list[int]]], lines: list[str], *, max_tokens: int | None
) -> list[list[int]]:
    """Return the ids of lines.

    Args:
        encode: a method of the tokenizer.
        max_tokens: the longest accepted line in subwords; None: no limit.

    Raises:
        LineError: if a line contains a lone surrogate or is too long.
    """
    for number, line in enumerate(lines, 1):
        if SURROGATE.search(line):
            raise LineError(number, " is not Unicode text: it contains a lone surrogate. Read it as UTF-8.")
    encoded = encode(lines)
    for number, ids in enumerate(encoded, 1):
        if max_tokens is not None and len(ids) > max_tokens:
            problem = f" has {len(ids):,} subwords, and the limit is {max_tokens:,}: split it into sentences"
            raise LineError(number, f"{problem}, or raise the limit ({argument('max_tokens')}).")
    return encoded
