"""Which training pairs are worth learning from; what was left out is counted and shown."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heed.data.cache import BLOCK, mapped_dataset
from heed.errors import HeedError

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Dataset

EXAMPLES = 3
"""Dropped pairs shown per rule."""

RATIO_SLACK = 10
"""Characters added to both sides before they are compared: "OK." and "In Ordnung." are a fair pair."""

Hashes = npt.NDArray[np.uint64]
"""64-bit digests of text: among 10 million pairs, two different ones meet with a chance of 3 in a million."""


@dataclass(frozen=True)
class Dropped:
    """A pair that was left out; ``number`` counts the training pairs as they were read, from 1."""

    number: int
    src: str
    tgt: str


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs were read, and how many each rule dropped; a pair counts for the first rule it breaks."""

    total: int
    dropped: dict[str, int]
    examples: dict[str, list[Dropped]]

    @property
    def kept(self) -> int:
        return self.total - sum(self.dropped.values())

    def __str__(self) -> str:
        lines = [f"training pairs: {self.total:,} read, {self.kept:,} kept"]
        for rule, count in self.dropped.items():
            if count:
                shown = " · ".join(
                    f"{pair.number:,}: {_short(pair.src)} ‖ {_short(pair.tgt)}" for pair in self.examples[rule]
                )
                lines.append(f"  {rule:<16}{count:>9,}   {shown}")
        return "\n".join(lines)


class Cleaning:
    """Rules for training pairs. Validation and test sets are never touched: their scores must stay comparable.

    Args:
        drop_empty: drop pairs with a side of nothing but white space.
        drop_placeholders: drop pairs with one side without any letter or digit ("@@", "-"), the other side having some.
        max_chars: drop pairs with a longer side, in characters. None: no limit.
        max_ratio: drop pairs whose longer side has more than this many times the characters of the shorter one
            (``RATIO_SLACK`` added to both). Characters and not words: many languages write no spaces. None: no limit.
        drop_leaked: drop pairs whose source is also the source of a validation or test pair, whatever their target:
            a translation of a test sentence is an answer to it, even if it is not the reference.
        drop_duplicates: keep the first of equal pairs. Equal sources with different targets stay.
    """

    def __init__(
        self,
        *,
        drop_empty: bool,
        drop_placeholders: bool,
        max_chars: int | None,
        max_ratio: float | None,
        drop_leaked: bool,
        drop_duplicates: bool,
    ) -> None:
        if max_chars is not None and max_chars < 1:
            raise HeedError(f"data.cleaning.max_chars is a number of characters or null, not {max_chars}.")
        if max_ratio is not None and max_ratio <= 1:
            raise HeedError(
                f"data.cleaning.max_ratio compares the longer side with the shorter: {max_ratio} is not over 1."
            )
        self.drop_empty = drop_empty
        self.drop_placeholders = drop_placeholders
        self.max_chars = max_chars
        self.max_ratio = max_ratio
        self.drop_leaked = drop_leaked
        self.drop_duplicates = drop_duplicates

    def apply(
        self, train: "Dataset", *, held_out: Sequence["Dataset"], at_most: int | None, cache_dir: Path
    ) -> tuple["Dataset", CleaningReport]:
        """The training pairs that pass, in their order, and the count of the others.

        ``at_most`` keeps that many of the clean pairs, chosen by their digest: a sample that does not depend on the
        order of the file (many are sorted by length), and smaller samples lie inside larger ones.

        Needs 17 bytes of memory per pair: the text is read in blocks, and what is kept is written to ``cache_dir``.
        """
        rules = ["empty", "placeholder", "too long", "length ratio", "leaked", "duplicate", "over max_train"]
        keep = len(rules)
        verdict = np.full(len(train), keep, dtype=np.uint8)
        pairs: Hashes = np.zeros(len(train), dtype=np.uint64)
        forbidden = self._sources(held_out)
        content = hashlib.blake2b(digest_size=8)
        for start, table in _tables(train):
            rows = slice(start, start + len(table))
            columns = table.to_pydict()
            for column in columns.values():
                content.update("\n".join(column).encode() + b"\n\n")
            sources, targets = columns["src"], columns["tgt"]
            pairs[rows] = _hashes(f"{src.strip()}\n{tgt.strip()}" for src, tgt in zip(sources, targets, strict=True))
            broken = self._broken(table)
            if self.drop_leaked:
                broken["leaked"] = np.isin(_hashes(src.strip() for src in sources), forbidden)
            for rule, rows_broken in broken.items():
                verdict[rows] = np.where(rows_broken, np.minimum(verdict[rows], rules.index(rule)), verdict[rows])
        if self.drop_duplicates:
            clean = np.flatnonzero(verdict == keep)
            first = np.unique(pairs[clean], return_index=True)[1]
            verdict[np.delete(clean, first)] = rules.index("duplicate")
        if at_most is not None:
            clean = np.flatnonzero(verdict == keep)
            verdict[clean[np.argsort(pairs[clean], kind="stable")[at_most:]]] = rules.index("over max_train")

        counts = np.bincount(verdict, minlength=keep + 1)
        report = CleaningReport(
            total=len(train),
            dropped={rule: int(counts[number]) for number, rule in enumerate(rules)},
            examples={
                rule: [
                    Dropped(int(row) + 1, train[int(row)]["src"], train[int(row)]["tgt"])
                    for row in np.flatnonzero(verdict == number)[:EXAMPLES]
                ]
                for number, rule in enumerate(rules)
            },
        )
        if report.kept == len(train):
            return train, report
        # Not train.select: every later read of a selection gathers row by row, at twenty times the cost.
        kept = (table.filter(verdict[start : start + len(table)] == keep) for start, table in _tables(train))
        content.update(verdict.tobytes())
        path = cache_dir / "text" / f"clean-{content.hexdigest()}.arrow"
        return mapped_dataset(path, train.features.arrow_schema, kept), report

    def _sources(self, held_out: Sequence["Dataset"]) -> Hashes:
        if not self.drop_leaked:
            return np.zeros(0, dtype=np.uint64)
        return _hashes(
            src.strip() for split in held_out for _, table in _tables(split) for src in table["src"].to_pylist()
        )

    def _broken(self, table: "pa.Table") -> dict[str, npt.NDArray[np.bool_]]:
        """For each rule that looks at one pair alone, the pairs that break it."""
        import pyarrow.compute as pc

        src, tgt = table["src"], table["tgt"]
        lengths = [pc.utf8_length(pc.utf8_trim_whitespace(side)).to_numpy() for side in (src, tgt)]
        shorter, longer = np.minimum(*lengths), np.maximum(*lengths)
        broken = {}
        if self.drop_empty:
            broken["empty"] = shorter == 0
        if self.drop_placeholders:
            src_worded, tgt_worded = (pc.match_substring_regex(side, r"[\p{L}\p{N}]").to_numpy() for side in (src, tgt))
            broken["placeholder"] = src_worded != tgt_worded
        if self.max_chars is not None:
            broken["too long"] = longer > self.max_chars
        if self.max_ratio is not None:
            broken["length ratio"] = longer + RATIO_SLACK > self.max_ratio * (shorter + RATIO_SLACK)
        return broken


def _tables(dataset: "Dataset") -> Iterator[tuple[int, "pa.Table"]]:
    """Arrow tables of ``BLOCK`` rows, each with its first row's number."""
    start = 0
    for table in dataset.with_format("arrow").iter(batch_size=BLOCK):
        yield start, table
        start += len(table)


def _hashes(texts: Iterable[str]) -> Hashes:
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8")


def _short(text: str, width: int = 40) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
