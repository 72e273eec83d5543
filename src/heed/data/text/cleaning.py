"""Cleaning rules for training pairs, and the report of what each rule dropped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from annotated_types import Interval

from heed.data.text.source import Digests, Sentences, are_in, mixed, text_digests
from heed.options import AtLeast1, validated

RULES = (
    "empty",
    "placeholder",
    "too long",
    "length ratio",
    "low score",
    "leaked",
    "duplicate",
    "over max_train",
)
"""All rules, in the order in which they are applied."""
EXAMPLES_PER_RULE = 3  # dropped pairs that the report shows per rule
RATIO_SLACK = 10
"""Characters added to both sides for the length ratio, so that short pairs ("OK." / "In Ordnung.") pass."""
DIGEST_LIMIT = 2**64  # exclusive upper bound of all digests
Rows = npt.NDArray[np.int64]


class DroppedPair(NamedTuple):
    """A dropped pair. ``number`` is its position in the text before cleaning, counted from 1."""

    number: int
    src: str
    tgt: str

    def __str__(self) -> str:
        src, tgt = (text if len(text) <= 40 else f"{text[:39]}…" for text in (self.src, self.tgt))
        return f"{self.number:,}: {src} ‖ {tgt}"


@dataclass(frozen=True)
class CleaningReport:
    """The number of pairs read, and of pairs dropped by each rule. A pair counts for the first rule it violates."""

    total: int  # pairs before cleaning
    dropped: Mapping[str, int]  # dropped pairs by rule, in the order of ``RULES``
    examples: Mapping[str, list[DroppedPair]]  # the first dropped pairs by rule
    chars: int  # characters of both sides of the pairs that no rule for single pairs drops

    @property
    def kept(self) -> int:
        """Pairs after cleaning."""
        return self.total - sum(self.dropped.values())

    def __str__(self) -> str:
        lines = [f"training pairs: {self.total:,} read, {self.kept:,} kept"]
        for rule, count in self.dropped.items():
            if count:
                examples = " · ".join(map(str, self.examples[rule]))
                lines.append(f"  {rule:<16}{count:>9,}   {examples}".rstrip())
        return "\n".join(lines)


@validated("data.cleaning.")
@dataclass(kw_only=True)
class Cleaning:
    """Cleaning rules for training pairs. conf/data/cleaning/default.yaml explains them.

    Validation and test sets are never changed, so their scores stay comparable.
    """

    drop_empty: bool
    drop_placeholders: bool
    max_chars: AtLeast1 | None
    max_ratio: Annotated[float, Interval(gt=1)] | None
    drop_leaked: bool
    drop_duplicates: bool


@dataclass(frozen=True)
class Rules:
    """The rules that select pairs.

    ``at_most`` samples the pairs with the smallest digests. The sample does not depend on the order of the text, and
    smaller samples are subsets of larger ones.
    """

    cleaning: Cleaning
    min_score: float | None  # pairs with a lower score are dropped
    held_out: Sequence[Digests]  # sorted, of the sentences that must not be sources and, with two directions, targets
    swapped: bool  # whether source and target are swapped
    at_most: int | None

    def violations(self, block: Sentences) -> npt.NDArray[np.uint8]:
        """Return for each pair the index in ``RULES`` of the first rule that it violates, or else their number.

        Only rules that look at one pair at a time are applied, to pairs as `heed.characters.normalized` returns them.
        """
        violated = np.full(len(block), len(RULES), dtype=np.uint8)

        def mark(rule: str, mask: npt.NDArray[np.bool_]) -> None:
            np.putmask(violated, mask & (violated == len(RULES)), RULES.index(rule))

        src, tgt = block.src, block.tgt
        lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in (src, tgt)]
        shorter, longer = np.minimum(*lengths), np.maximum(*lengths)
        if self.cleaning.drop_empty:
            mark("empty", shorter == 0)
        if self.cleaning.drop_placeholders:
            has_word = [np.array([any(map(str.isalnum, text)) for text in side], np.bool_) for side in (src, tgt)]
            mark("placeholder", has_word[0] != has_word[1])
        if self.cleaning.max_chars is not None:
            mark("too long", longer > self.cleaning.max_chars)
        if self.cleaning.max_ratio is not None:
            mark("length ratio", longer + RATIO_SLACK > self.cleaning.max_ratio * (shorter + RATIO_SLACK))
        if self.min_score is not None and block.scores is not None:
            # A missing score is NaN and fails the threshold.
            mark("low score", ~(np.asarray(block.scores, dtype=np.float64) >= self.min_score))
        for sentences, sorted_digests in zip((src, tgt), self.held_out, strict=False):
            mark("leaked", are_in(text_digests(sentences), sorted_digests))
        return violated

    def select(self, digests: Digests, heavier: Sequence[Digests]) -> tuple[Rows, Digests, int, Rows]:
        """Drop duplicates, then sample the pairs with the smallest digests. Needs about 40 bytes of memory per pair.

        Args:
            digests: digests of the clean pairs, in the order of the text. The first of equal pairs is kept.
            heavier: sorted digests of other texts. A pair that occurs in one of them is a duplicate.

        Returns:
            The ascending positions of the selected pairs among the clean pairs; their sort keys, digests of each pair
            and of its copy number; the exclusive upper bound of the keys, ``DIGEST_LIMIT`` unless the text is sampled;
            and the positions of the duplicates.
        """
        copies = copy_numbers(digests)
        is_kept = np.ones(len(digests), np.bool_)
        if self.cleaning.drop_duplicates:
            is_kept = copies == 0
            for others in heavier:
                is_kept &= ~are_in(digests, others)
        rows, bound = np.flatnonzero(is_kept), DIGEST_LIMIT
        if self.at_most is not None and len(rows) > self.at_most:
            by_digest = rows[np.argsort(digests[rows], kind="stable")]
            bound = int(digests[by_digest[self.at_most]]) if self.cleaning.drop_duplicates else DIGEST_LIMIT
            rows = np.sort(by_digest[: self.at_most])
        # Each copy of a pair gets its own key, so that keys order all pairs.
        return rows, mixed(digests[rows], copies[rows]), bound, np.flatnonzero(~is_kept)


def copy_numbers(digests: Digests) -> Rows:
    """Return for each digest the number of equal ones before it: 0 for the first of equal digests."""
    order = np.argsort(digests, kind="stable")
    ordered, positions = digests[order], np.arange(len(digests))
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(digests)]
    numbers = np.empty_like(positions)
    numbers[order] = positions - np.maximum.accumulate(np.where(is_first, positions, 0))
    return numbers
