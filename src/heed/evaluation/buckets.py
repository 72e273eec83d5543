"""Group test sentences into buckets by length, word frequency, copied words and phenomenon."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from heed.errors import HeedError
from heed.evaluation.words import casefolded_words

LENGTHS = (10, 20, 30, 50)
FREQUENCIES = (1, 10, 100, 1000)
NUMBERS = (1, 2, 4)
"""Lower bounds of the second and following buckets, for lengths, word frequencies and numbers of words."""


@dataclass(frozen=True)
class Bucketing:
    """A partition of a test set."""

    title: str
    note: str  # the quantity that the labels show
    buckets: Mapping[str, list[int]]  # indices of the sentences in each bucket, by label. No bucket is empty.


def count_words(lines: Iterable[str], vocabulary: set[str]) -> dict[str, int]:
    """Count how often each word of ``vocabulary`` occurs in the lines."""
    counts = Counter(word for line in lines for word in casefolded_words(line) if word in vocabulary)
    return {word: counts[word] for word in sorted(vocabulary)}


def bucketings(
    sources: Sequence[str],
    references: Sequence[str],
    *,
    tags: Sequence[str] | None = None,
    word_counts: Mapping[str, int] | None = None,
) -> list[Bucketing]:
    """Partition sentences by source length, phenomenon, rare, unknown and copied words.

    Args:
        tags: the phenomenon of each sentence, if known.
        word_counts: training counts of the source words, if known. The partition by rarest word omits sentences
            without words.
    """
    words = [casefolded_words(source) for source in sources]
    found = [_group_by_number("Source length", "words in the source", [len(own) for own in words], LENGTHS)]
    if tags:
        buckets = {tag: [i for i, own in enumerate(tags) if own == tag] for tag in sorted({*tags})}
        found.append(Bucketing("Phenomenon", "tag", buckets))
    if word_counts is not None:
        counts = [[word_counts.get(word, 0) for word in own] for own in words]
        note = "how often the rarest source word occurs in the training data"
        found.append(_group_by_number("Rare words", note, [min(own, default=None) for own in counts], FREQUENCIES))
        note = "source words that do not occur in the training data"
        found.append(_group_by_number("Unknown words", note, [own.count(0) for own in counts], NUMBERS))
    copied = [
        (Counter(own) & Counter(casefolded_words(reference))).total()
        for own, reference in zip(words, references, strict=True)
    ]
    found.append(_group_by_number("Copied words", "source words that are also in the reference", copied, NUMBERS))
    return found


def _group_by_number(title: str, note: str, numbers: Sequence[int | None], bounds: Sequence[int]) -> Bucketing:
    """Group sentences by a number, given the lower bounds of all buckets but the first. Omit sentences with None."""
    labels = [f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}" for low, high in pairwise((0, *bounds))]
    buckets: dict[str, list[int]] = {label: [] for label in (*labels, f"{bounds[-1]:,} or more")}
    by_number = list(buckets.values())
    for i, number in enumerate(numbers):
        if number is not None:
            by_number[bisect_right(bounds, number)].append(i)
    return Bucketing(title, note, {label: rows for label, rows in buckets.items() if rows})


# ---- word count files

WORD_COUNTS = "word_counts.tsv"
"""File in a run's translations folder: training counts of the source words of the evaluated sentences."""


def write_counts(path: Path, counts: Mapping[str, int]) -> None:
    """Write one word and its count a line."""
    path.write_text("".join(f"{word}\t{count}\n" for word, count in counts.items()), encoding="utf-8")


def read_counts(path: Path) -> dict[str, int]:
    """Return the counts that `write_counts` wrote; raise a HeedError if they are damaged."""
    try:
        lines = path.read_bytes().decode().split("\n")[:-1]
        return {word: int(count) for word, count in (line.split("\t") for line in lines)}
    except ValueError as error:
        raise HeedError(f"{path} is damaged: copy it again from its run.") from error
