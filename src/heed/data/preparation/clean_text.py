"""Clean text: the pairs of a training text that pass the cleaning rules, without duplicates, as Arrow files."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.data.arrow import batches_of, new_arrow_file, open_arrow_file
from heed.data.cleaning import EXAMPLES_PER_RULE, NO_RULE, RULES, Cleaning, CleaningReport, DroppedPair
from heed.data.digests import Digests, are_in, mixed, pair_digests, set_checksum
from heed.data.preparation.workers import Workers
from heed.data.text import Advance, Block, Part
from heed.errors import HeedError
from heed.files import replacing

SCHEMA = pa.schema([("row", pa.uint32()), ("digest", pa.uint64()), ("src", pa.string()), ("tgt", pa.string())])
"""The clean pairs of a part, in the order of the text: position in the part, digest, and both sides."""

DIGEST_LIMIT = 2**64

SELECTION = "selection.npy"
"""File with two rows: the positions of the selected pairs among the clean ones, in ascending order, and their keys."""

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rules:
    """What decides which pairs are selected.

    Args:
        cleaning: the cleaning rules.
        min_score: see `Cleaning.violations`.
        at_most: size of the sample with the smallest digests. It does not depend on the order of the text, which may be
            sorted by length, and smaller samples are subsets of larger ones. None: all clean pairs.
    """

    cleaning: Cleaning
    min_score: float | None
    at_most: int | None


class CleanText:
    """The selected pairs of a training text, as files that `write_clean_text` wrote.

    Args:
        folder: of the files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        content = json.loads((folder / "text.json").read_text(encoding="utf-8"))
        self.fingerprint: str = content["fingerprint"]
        """Digest of the selected pairs, whatever their order in the text."""
        self.chars: int = content["chars"]
        """Characters of both sides of the clean pairs, with duplicates."""
        self.bound: int = content["bound"]
        """The digests of the selected pairs are smaller."""
        self.report = CleaningReport(
            content["total"],
            content["dropped"],
            {rule: [DroppedPair(**pair) for pair in pairs] for rule, pairs in content["examples"].items()},
        )
        self._first_row = np.cumsum([0, *content["clean"]])
        """Clean pairs before each part."""

    def __len__(self) -> int:
        return self.report.kept

    @property
    def parts(self) -> range:
        """The numbers of the parts."""
        return range(len(self._first_row) - 1)

    @cached_property
    def _selection(self) -> tuple[Rows, Digests]:
        rows, keys = np.load(self.folder / SELECTION, mmap_mode="r")
        return rows.view(np.int64), keys

    def read(self, part: int, low: int = 0, high: int = DIGEST_LIMIT) -> Iterator[tuple[Block, Digests]]:
        """Yield the selected pairs of a part, in the order of the text, and the digests that order them.

        Args:
            part: its number.
            low, high: only pairs with digests from ``low`` to below ``high``.
        """
        rows, keys = self._selection
        first = int(self._first_row[part])
        with open_arrow_file(_part_file(self.folder, part)) as reader:
            for batch in batches_of(reader):
                chosen = slice(*np.searchsorted(rows, [first, first + len(batch)]))
                inside = (keys[chosen] >= np.uint64(low)) & (keys[chosen] <= np.uint64(high - 1))
                pairs = batch.take(pa.array(rows[chosen][inside] - first))
                yield Block(pairs["src"].to_pylist(), pairs["tgt"].to_pylist()), keys[chosen][inside]
                first += len(batch)

    def digests(self) -> Digests:
        """Return the sorted digests of all clean pairs, with duplicates."""
        return np.sort(_read_digests(self.folder, self.parts))


def write_clean_text(
    folder: Path,
    parts: Sequence[Part],
    rules: Rules,
    held_out: Sequence[Digests],
    workers: Workers,
    *,
    swapped: bool,
    heavier: Sequence[CleanText] = (),
) -> None:
    """Clean a text and select its training pairs. Parts that an interrupted call has cleaned are not read again.

    Args:
        folder: where the files are written.
        parts: the text.
        held_out: digests of held-out sentences, see `Cleaning.violations`.
        swapped: swap source and target.
        heavier: texts whose pairs are duplicates here.

    Raises:
        HeedError: if the text is invalid or has no sentences.
    """
    tasks = [
        partial(_clean_part, _part_file(folder, number), part, rules, held_out, swapped)
        for number, part in enumerate(parts)
    ]
    size = sum(part.size for part in parts)
    cleaned = workers.map(tasks, description="Reading and cleaning", total=size, unit="B")
    first_pairs = np.cumsum([0, *(part.pairs for part in cleaned)])
    if not first_pairs[-1]:
        raise HeedError(f"{', '.join(part.name for part in parts)}: no sentences.")
    selected = select(
        _read_digests(folder, range(len(parts))),
        [text.digests() for text in heavier],
        keep_duplicates=not rules.cleaning.drop_duplicates,
        at_most=rules.at_most,
    )
    with replacing(folder / SELECTION) as file, file.open("wb") as stream:
        np.save(stream, np.stack([selected.rows.view(np.uint64), selected.keys]))
    examples: dict[str, list[DroppedPair]] = {rule: [] for rule in RULES}
    for part, first in zip(cleaned, first_pairs.tolist(), strict=False):
        for rule, pairs in part.examples.items():
            found = [DroppedPair(first + row + 1, src, tgt) for row, src, tgt in pairs]
            examples[rule] = [*examples[rule], *found][:EXAMPLES_PER_RULE]
    clean = [part.violations[NO_RULE] for part in cleaned]
    examples["duplicate"] = _read_pairs(folder, selected.duplicates, np.cumsum([0, *clean]), first_pairs.tolist())
    dropped = dict(zip(RULES, np.sum([part.violations for part in cleaned], axis=0).tolist(), strict=False))
    checksum = repr(list(set_checksum(selected.keys)))
    content = {
        "fingerprint": hashlib.blake2b(checksum.encode(), digest_size=16).hexdigest(),
        # For people; the names of the parts need not be UTF-8.
        "inputs": {os.fsencode(part.name).decode(errors="replace"): part.size for part in parts},
        "total": int(first_pairs[-1]),
        "clean": clean,
        "chars": sum(part.chars for part in cleaned),
        "bound": selected.bound,
        "dropped": dropped | selected.dropped,
        "examples": {rule: list(map(asdict, pairs)) for rule, pairs in examples.items()},
    }
    with replacing(folder / "text.json") as file:
        file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")


# ---- cleaning, part by part


@dataclass(frozen=True)
class CleanedPart:
    """What the cleaning found in a part."""

    pairs: int
    """Pairs of the part."""
    violations: list[int]
    """Pairs for which each of ``RULES`` is the first that they violate, and clean pairs at the end."""
    chars: int
    """Characters of both sides of the clean pairs."""
    examples: Mapping[str, list[tuple[int, str, str]]]
    """The first dropped pairs of each rule: position in the part, and both sides."""


def _clean_part(
    path: Path, part: Part, rules: Rules, held_out: Sequence[Digests], swapped: bool, advance: Advance
) -> CleanedPart:
    """Write the clean pairs of a part to ``path``, unless an interrupted preparation has done so."""
    done = path.with_suffix(".json")
    if done.exists():
        advance(part.size)
        return CleanedPart(**json.loads(done.read_text(encoding="utf-8")))
    pairs, chars, counts = 0, 0, np.zeros(NO_RULE + 1, dtype=np.int64)
    examples: dict[str, list[tuple[int, str, str]]] = {rule: [] for rule in RULES}
    with new_arrow_file(path, SCHEMA) as writer:
        for block in part.read(advance):
            block = block.swapped() if swapped else block
            violated = rules.cleaning.violations(block, held_out, min_score=rules.min_score)
            clean = np.flatnonzero(violated == NO_RULE)
            kept = block.take(clean.tolist())
            writer.write_batch(
                pa.record_batch([(pairs + clean).astype(np.uint32), pair_digests(kept), kept.src, kept.tgt], SCHEMA)
            )
            for rule, found in enumerate(examples.values()):
                for row in np.flatnonzero(violated == rule)[: EXAMPLES_PER_RULE - len(found)].tolist():
                    found.append((pairs + row, block.src[row], block.tgt[row]))
            counts += np.bincount(violated, minlength=NO_RULE + 1)
            chars += sum(map(len, (*kept.src, *kept.tgt)))
            pairs += len(block)
    cleaned = CleanedPart(pairs, counts.tolist(), chars, examples)
    with replacing(done) as file:
        file.write_text(json.dumps(asdict(cleaned)), encoding="utf-8")
    return cleaned


def _part_file(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05}.arrow"


def _read_digests(folder: Path, parts: Sequence[int]) -> Digests:
    """Return the digests of the clean pairs of all parts, in the order of the text."""
    found = []
    for part in parts:
        with open_arrow_file(_part_file(folder, part)) as reader:
            found += [batch["digest"].to_numpy().copy() for batch in batches_of(reader)]
    return np.concatenate(found) if found else np.zeros(0, np.uint64)


def _read_pairs(folder: Path, rows: Rows, first_rows: Rows, first_pairs: Sequence[int]) -> list[DroppedPair]:
    """Return some clean pairs, for the report.

    Args:
        rows: their positions among all clean pairs.
        first_rows: clean pairs before each part.
        first_pairs: pairs before each part.
    """
    pairs = []
    for row, part in zip(rows, np.searchsorted(first_rows, rows, side="right") - 1, strict=True):
        with open_arrow_file(_part_file(folder, part)) as reader:
            found = reader.read_all().slice(row - first_rows[part], 1).to_pylist()[0]
            pairs.append(DroppedPair(first_pairs[part] + found["row"] + 1, found["src"], found["tgt"]))
    return pairs


# ---- duplicates and samples


class Selected(NamedTuple):
    """The pairs that are selected of the clean ones."""

    rows: Rows
    """Their positions among the clean pairs, in ascending order."""
    keys: Digests
    """The digests that order them."""
    bound: int
    """The digests are smaller."""
    dropped: dict[str, int]
    """Pairs that the rules "duplicate" and "over max_train" drop."""
    duplicates: Rows
    """Positions of the first duplicates."""


def select(digests: Digests, heavier: Sequence[Digests], *, keep_duplicates: bool, at_most: int | None) -> Selected:
    """Drop duplicates and sample. Needs about 30 bytes of memory a pair.

    Args:
        digests: of the clean pairs, in the order of the text. Of equal ones the first is kept.
        heavier: sorted digests of other texts, whose pairs are duplicates here.
        keep_duplicates: keep all of them.
        at_most: size of the sample; None: all pairs.
    """
    order = np.argsort(digests, kind="stable")
    digests = digests[order]
    is_first = np.ones(len(digests), np.bool_)
    is_first[1:] = digests[1:] != digests[:-1]
    if keep_duplicates:
        # Equal pairs have different keys, which tell how often the pair occurred before.
        first = np.maximum.accumulate(np.where(is_first, np.arange(len(digests)), 0))
        keys = mixed(digests, np.arange(len(digests)) - first)
        chosen = np.arange(len(digests))
    else:
        for others in heavier:
            is_first &= ~are_in(digests, others)
        keys, chosen = digests, np.flatnonzero(is_first)
    dropped, bound = {"duplicate": len(digests) - len(chosen)}, DIGEST_LIMIT
    if at_most is not None and len(chosen) > at_most:
        dropped["over max_train"] = len(chosen) - at_most
        bound = DIGEST_LIMIT if keep_duplicates else int(digests[chosen[at_most]])
        chosen = chosen[:at_most]
    rows, keys = order[chosen], keys[chosen]
    by_row = np.argsort(rows)
    duplicates = order[:0] if keep_duplicates else np.sort(order[~is_first])[:EXAMPLES_PER_RULE]
    return Selected(rows[by_row], keys[by_row], bound, dropped, duplicates)
