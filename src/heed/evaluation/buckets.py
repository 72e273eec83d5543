"""Kinds of sentences: a test set cut up by what could make a sentence hard."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heed.errors import HeedError

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Kana and Han, written without spaces: each character counts as a word."""
WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+(?:['’-][^\W{CJK}]+)*")

LENGTHS = (10, 20, 30, 50)
FREQUENCIES = (1, 10, 100, 1000)
FEW = (1, 2, 4)
"""Where the next bucket begins."""


@dataclass(frozen=True)
class Bucketing:
    """One way to cut up a test set."""

    title: str
    note: str
    """What the labels say."""
    buckets: Mapping[str, list[int]]
    """By label, the sentences in it, counted from 0; none is empty."""


def words(line: str) -> list[str]:
    """The words of a sentence as they are counted here: without case and punctuation."""
    return WORD.findall(line.casefold())


def count_words(lines: Iterable[str], vocabulary: set[str]) -> dict[str, int]:
    """How often each word of ``vocabulary`` occurs in the lines."""
    counts = Counter(word for line in lines for word in words(line) if word in vocabulary)
    return {word: counts[word] for word in sorted(vocabulary)}


def by_length(sources: Sequence[str]) -> Bucketing:
    """By words of the source."""
    return Bucketing(
        "Source length", "words in the source", _by_number(sources, lambda i: len(words(sources[i])), LENGTHS)
    )


def by_rarest_word(sources: Sequence[str], counts: Mapping[str, int]) -> Bucketing:
    """By how often training had the rarest word of the source, given the counts of all words."""

    def rarest(i: int) -> int | None:
        return min((counts.get(word, 0) for word in words(sources[i])), default=None)

    return Bucketing(
        "Rare words", "times the rarest source word occurs in training", _by_number(sources, rarest, FREQUENCIES)
    )


def by_unknown_words(sources: Sequence[str], counts: Mapping[str, int]) -> Bucketing:
    """By how many words of the source training never had."""
    return Bucketing(
        "Unknown words",
        "source words that training never had",
        _by_number(sources, lambda i: sum(not counts.get(word, 0) for word in words(sources[i])), FEW),
    )


def by_copied_words(sources: Sequence[str], references: Sequence[str]) -> Bucketing:
    """By how many words of the source stand in the reference as they are: names, numbers, and chance likenesses."""

    def copied(i: int) -> int:
        return sum((Counter(words(sources[i])) & Counter(words(references[i]))).values())

    return Bucketing("Copied words", "source words that the reference has, too", _by_number(sources, copied, FEW))


def by_tag(tags: Sequence[str]) -> Bucketing:
    """By the phenomenon a sentence shows."""
    return Bucketing(
        "Phenomenon", "tag", {tag: [i for i, own in enumerate(tags) if own == tag] for tag in sorted({*tags})}
    )


def _by_number(
    sources: Sequence[str], number: Callable[[int], int | None], edges: Sequence[int]
) -> dict[str, list[int]]:
    """Sentences by their number: below the first edge, from edge to edge, from the last one on."""
    buckets: dict[str, list[int]] = {label: [] for label in _labels(edges)}
    for i in range(len(sources)):
        value = number(i)
        if value is not None:
            buckets[_labels(edges)[bisect_right(edges, value)]].append(i)
    return {label: rows for label, rows in buckets.items() if rows}


def _labels(edges: Sequence[int]) -> list[str]:
    bounds = [0, *edges]
    spans = [
        f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}" for low, high in zip(bounds, edges, strict=False)
    ]
    return [*spans, f"{edges[-1]:,} or more"]


# ---- counts in a file

WORD_COUNTS = "word_counts.tsv"
"""Beside a run's translations: how often training had the source words of the evaluated sentences."""


def write_counts(path: Path, counts: Mapping[str, int], *, pairs: int, of: int) -> None:
    """Counts from ``pairs`` out of ``of`` training pairs: a head, then a word and its count in each line."""
    lines = [f"{pairs}\t{of}", *(f"{word}\t{count}" for word, count in counts.items())]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_counts(path: Path) -> tuple[dict[str, int], int, int]:
    """What `write_counts` was given."""
    try:
        head, *lines = path.read_bytes().decode().split("\n")[:-1]
        pairs, of = map(int, head.split("\t"))
        return {word: int(count) for word, count in (line.split("\t") for line in lines)}, pairs, of
    except ValueError as error:
        raise HeedError(f"{path} is not what a run writes: copy it again.") from error
