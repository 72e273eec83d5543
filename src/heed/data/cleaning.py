"""Cleaning rules for training pairs, with a report of what each rule dropped."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Interval

from heed.data.cache import BLOCK, mapped_dataset
from heed.options import AtLeast1, validated
from heed.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

EXAMPLES_PER_RULE = 3
"""Dropped pairs that the report shows per rule."""

RATIO_SLACK = 10
"""Characters added to both sides before the length ratio is taken, so that short pairs ("OK." / "In Ordnung.") pass."""

Hashes = npt.NDArray[np.uint64]
"""64-bit digests of text. Among 10 million different pairs, the probability of a collision is 3 in a million."""


@dataclass(frozen=True)
class DroppedPair:
    """A dropped pair; ``number`` is its position in the training set before cleaning, from 1."""

    number: int
    src: str
    tgt: str


@dataclass(frozen=True)
class CleaningReport:
    """The number of pairs read, and of pairs dropped by each rule. A pair counts for the first rule it violates."""

    total: int
    """Pairs before cleaning."""
    dropped: dict[str, int]
    """Dropped pairs by rule, in the order in which the rules are applied."""
    examples: dict[str, list[DroppedPair]]
    """The first dropped pairs by rule."""

    @property
    def kept(self) -> int:
        """Pairs after cleaning."""
        return self.total - sum(self.dropped.values())

    def __str__(self) -> str:
        lines = [f"training pairs: {self.total:,} read, {self.kept:,} kept"]
        for rule, count in self.dropped.items():
            if count:
                examples = " · ".join(
                    f"{pair.number:,}: {_truncate(pair.src)} ‖ {_truncate(pair.tgt)}" for pair in self.examples[rule]
                )
                lines.append(f"  {rule:<16}{count:>9,}   {examples}")
        return "\n".join(lines)


@validated("data.cleaning.")
class Cleaning:
    """Cleaning rules for training pairs. Validation and test sets are never changed, so their scores stay comparable.

    Args:
        drop_empty: drop pairs in which a side is empty or white space.
        drop_placeholders: drop pairs in which exactly one side has no letter or digit ("@@", "-").
        max_chars: drop pairs in which a side has more characters. None: no limit.
        max_ratio: drop pairs whose longer side has more than ``max_ratio`` times the characters of the shorter side,
            with ``RATIO_SLACK`` added to both. In characters, because many languages write no spaces. None: no limit.
        drop_leaked: drop pairs whose source is also the source of a validation or test pair, whatever the target: any
            translation of a test sentence helps to translate it, even if it is not the reference.
        drop_duplicates: keep only the first of equal pairs. Equal sources with different targets are kept.

    Raises:
        HeedError: if ``max_chars`` or ``max_ratio`` is out of range.
    """

    def __init__(
        self,
        *,
        drop_empty: bool,
        drop_placeholders: bool,
        max_chars: AtLeast1 | None,
        max_ratio: Annotated[float, Interval(gt=1)] | None,
        drop_leaked: bool,
        drop_duplicates: bool,
    ) -> None:
        self.drop_empty = drop_empty
        self.drop_placeholders = drop_placeholders
        self.max_chars = max_chars
        self.max_ratio = max_ratio
        self.drop_leaked = drop_leaked
        self.drop_duplicates = drop_duplicates

    def apply(
        self, train: "Dataset", *, held_out: Sequence["Dataset"], at_most: int | None, cache_dir: Path
    ) -> tuple["Dataset", CleaningReport]:
        """Return the training pairs that pass all rules, in their order, and the report.

        The text is read in blocks and needs 17 bytes of memory per pair.

        Args:
            train: the training pairs, with the columns "src" and "tgt" and possibly others.
            held_out: the validation and test sets.
            at_most: keep only this many of the clean pairs: those with the smallest digests. This sample is independent
                of the order of the file, which may be sorted by length, and smaller samples are subsets of larger ones.
            cache_dir: where the kept pairs are written, if any pair is dropped.
        """
        rules = ["empty", "placeholder", "too long", "length ratio", "leaked", "duplicate", "over max_train"]
        no_rule = len(rules)
        violated = np.full(len(train), no_rule, dtype=np.uint8)  # the first violated rule of each pair
        pairs: Hashes = np.zeros(len(train), dtype=np.uint64)
        held_out_sources = self._source_hashes(held_out)
        content = hashlib.blake2b(digest_size=8)
        for start, table in _tables("Cleaning", train):
            rows = slice(start, start + len(table))
            columns = table.to_pydict()
            for column in columns.values():
                content.update("\n".join(column).encode() + b"\n\n")
            sources, targets = columns["src"], columns["tgt"]
            pairs[rows] = _hashes(f"{src.strip()}\n{tgt.strip()}" for src, tgt in zip(sources, targets, strict=True))
            violations = self._violations(table)
            if self.drop_leaked:
                violations["leaked"] = np.isin(_hashes(src.strip() for src in sources), held_out_sources)
            for rule, mask in violations.items():
                violated[rows] = np.where(mask, np.minimum(violated[rows], rules.index(rule)), violated[rows])
        if self.drop_duplicates:
            clean = np.flatnonzero(violated == no_rule)
            first = np.unique(pairs[clean], return_index=True)[1]
            violated[np.delete(clean, first)] = rules.index("duplicate")
        if at_most is not None:
            clean = np.flatnonzero(violated == no_rule)
            violated[clean[np.argsort(pairs[clean], kind="stable")[at_most:]]] = rules.index("over max_train")

        counts = np.bincount(violated, minlength=no_rule + 1)
        report = CleaningReport(
            total=len(train),
            dropped={rule: int(counts[number]) for number, rule in enumerate(rules)},
            examples={
                rule: [
                    DroppedPair(int(row) + 1, train[int(row)]["src"], train[int(row)]["tgt"])
                    for row in np.flatnonzero(violated == number)[:EXAMPLES_PER_RULE]
                ]
                for number, rule in enumerate(rules)
            },
        )
        if report.kept == len(train):
            return train, report
        # A copy instead of train.select, which gathers row by row on every later read and is much slower.
        kept = (
            table.filter(violated[start : start + len(table)] == no_rule)
            for start, table in _tables("Writing clean pairs", train)
        )
        content.update(violated.tobytes())
        path = cache_dir / "text" / f"clean-{content.hexdigest()}.arrow"
        return mapped_dataset(path, train.features.arrow_schema, kept), report

    def _source_hashes(self, held_out: Sequence["Dataset"]) -> Hashes:
        if not self.drop_leaked:
            return np.zeros(0, dtype=np.uint64)
        return _hashes(
            src.strip()
            for _, table in _tables("Hashing validation and test sources", *held_out)
            for src in table["src"].to_pylist()
        )

    def _violations(self, table: "pa.Table") -> dict[str, npt.NDArray[np.bool_]]:
        """Return, for each rule that needs only the pair itself, a mask of the pairs that violate it."""
        import pyarrow.compute as pc

        src, tgt = table["src"], table["tgt"]
        lengths = [pc.utf8_length(pc.utf8_trim_whitespace(side)).to_numpy() for side in (src, tgt)]
        shorter, longer = np.minimum(*lengths), np.maximum(*lengths)
        violations = {}
        if self.drop_empty:
            violations["empty"] = shorter == 0
        if self.drop_placeholders:
            has_word = [pc.match_substring_regex(side, r"[\p{L}\p{N}]").to_numpy() for side in (src, tgt)]
            violations["placeholder"] = has_word[0] != has_word[1]
        if self.max_chars is not None:
            violations["too long"] = longer > self.max_chars
        if self.max_ratio is not None:
            violations["length ratio"] = longer + RATIO_SLACK > self.max_ratio * (shorter + RATIO_SLACK)
        return violations


def _tables(description: str, *datasets: "Dataset") -> Iterator[tuple[int, "pa.Table"]]:
    """Yield Arrow tables of ``BLOCK`` rows, each with the index of its first row, and report the progress."""
    with Progress(description, total=sum(map(len, datasets)), unit="pairs") as bar:
        for dataset in datasets:
            start = 0
            for table in dataset.with_format("arrow").iter(batch_size=BLOCK):
                yield start, table
                start += len(table)
                bar.update(len(table))


def _hashes(texts: Iterable[str]) -> Hashes:
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8")


def _truncate(text: str, width: int = 40) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
