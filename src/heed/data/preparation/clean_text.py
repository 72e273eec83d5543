"""Clean a training text: write the pairs that pass the cleaning rules as Arrow files, and select among them."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.data.arrow import new_arrow_file
from heed.data.cleaning import (
    DIGEST_LIMIT,
    EXAMPLES_PER_RULE,
    NO_RULE,
    RULES,
    CleaningReport,
    DroppedPair,
    Rows,
    Rules,
)
from heed.data.digests import Digests, pair_digests, set_digest
from heed.data.preparation.workers import Workers
from heed.data.text import Advance, Block, Source
from heed.errors import HeedError
from heed.files import replacing, write_file
from heed.progress import progress_bar

Number = TypeVar("Number", bound=np.generic)

SCHEMA = pa.schema([("row", pa.int64()), ("digest", pa.uint64()), ("src", pa.string()), ("tgt", pa.string())])
"""The clean pairs of a block, in the order of the text: position, digest and both sides."""

SELECTION = "selection.npy"
"""File with two rows: the ascending positions of the selected pairs among the clean pairs, and their keys."""


class CleanText:
    """The selected pairs of a training text, in a folder that `write_clean_text` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        content = json.loads((folder / "text.json").read_text(encoding="utf-8"))
        self.digest: str = content["digest"]
        """Digest of the selected pairs, independent of their order in the text."""
        self.chars: int = content["chars"]
        """Characters of both sides of the clean pairs, including duplicates."""
        self.bound: int = content["bound"]
        """Exclusive upper bound of the digests of the selected pairs."""
        self.report = CleaningReport(
            content["total"],
            content["dropped"],
            {rule: [DroppedPair(*pair) for pair in pairs] for rule, pairs in content["examples"].items()},
        )
        self._first_row = np.cumsum([0, *content["clean"]])
        """Clean pairs before each block."""

    def __len__(self) -> int:
        return self.report.kept

    @property
    def blocks(self) -> range:
        """The numbers of the text's blocks."""
        return range(len(self._first_row) - 1)

    @cached_property
    def _selection(self) -> tuple[Rows, Digests]:
        rows, keys = np.load(self.folder / SELECTION, mmap_mode="r")
        return rows.view(np.int64), keys

    def read(self, number: int, low: int = 0, high: int = DIGEST_LIMIT) -> tuple[Block, Digests]:
        """Return the selected pairs of a block, in the order of the text, and their keys.

        Args:
            number: number of the block.
            low, high: return only pairs with keys from ``low`` to ``high`` - 1.
        """
        rows, keys = self._selection
        first, stop = self._first_row[number : number + 2]
        chosen = slice(*np.searchsorted(rows, [first, stop]))
        inside = (keys[chosen] >= np.uint64(low)) & (keys[chosen] <= np.uint64(high - 1))
        with _open_block(self.folder, number) as clean:
            pairs = clean.take(pa.array(rows[chosen][inside] - first))
            return Block(pairs["src"].to_pylist(), pairs["tgt"].to_pylist()), keys[chosen][inside]

    def lines(self) -> Rows:
        """Return the place in the text of each selected pair, in the order of the stored pairs: that of their keys."""
        rows, keys = self._selection
        return _read_column(self.folder, self.blocks, "row", np.int64)[rows][np.argsort(keys)]

    def digests(self) -> Digests:
        """Return the sorted digests of all clean pairs, including duplicates."""
        return np.sort(_read_column(self.folder, self.blocks, "digest", np.uint64))


def write_clean_text(
    folder: Path,
    sources: Sequence[Source],
    rules: Rules,
    workers: Workers,
    heavier: Sequence[CleanText],
) -> None:
    """Clean a text and select its training pairs. Blocks that an interrupted call has cleaned are reused.

    Args:
        folder: folder to write to.
        sources: inputs of the text.
        heavier: other texts. A pair that occurs in one of them is a duplicate.

    Raises:
        HeedError: if the text is invalid or has no sentences.
    """
    total = 0

    def tasks(advance: Advance) -> Iterator[Callable[[], CleanedBlock]]:
        nonlocal total
        for number, block in enumerate(block for source in sources for block in source.blocks(advance)):
            yield partial(_clean_block, _block_file(folder, number), block, total, rules)
            total += len(block)

    with progress_bar("Reading and cleaning", total=sum(source.size for source in sources), unit="B") as bar:
        cleaned = list(workers.map(tasks(bar.update)))
    if not total:
        raise HeedError(f"{', '.join(source.name for source in sources)}: no sentences.")
    digests = _read_column(folder, range(len(cleaned)), "digest", np.uint64)
    selected = rules.select(digests, [text.digests() for text in heavier])
    with replacing(folder / SELECTION) as file, file.open("wb") as stream:
        np.save(stream, np.stack([selected.rows.view(np.uint64), selected.keys]))
    clean = [block.violations[NO_RULE] for block in cleaned]
    examples = {
        rule: list(islice((pair for block in cleaned for pair in block.examples[rule]), EXAMPLES_PER_RULE))
        for rule in RULES
    }
    examples["duplicate"] = _read_pairs(folder, selected.duplicates, np.cumsum([0, *clean]))
    dropped = dict(zip(RULES, np.sum([block.violations for block in cleaned], axis=0).tolist(), strict=False))
    content = {
        "digest": set_digest(selected.keys),
        # For people to read. File names need not be UTF-8.
        "inputs": {os.fsencode(source.name).decode(errors="replace"): source.size for source in sources},
        "total": total,
        "clean": clean,
        "chars": sum(block.chars for block in cleaned),
        "bound": selected.bound,
        "dropped": dropped | selected.dropped,
        "examples": examples,
    }
    write_file(folder / "text.json", json.dumps(content, ensure_ascii=False, indent=1))


# ---- cleaning, block by block


@dataclass(frozen=True)
class CleanedBlock:
    """The result of cleaning a block."""

    violations: list[int]
    """Number of pairs whose first violated rule is each of ``RULES``, then the number of clean pairs."""
    chars: int
    """Characters of both sides of the clean pairs."""
    examples: Mapping[str, list[DroppedPair]]
    """The first dropped pairs of each rule."""


def _clean_block(path: Path, block: Block, first: int, rules: Rules) -> CleanedBlock:
    """Write the clean pairs of the block after ``first`` pairs, unless an interrupted preparation has done so."""
    done = path.with_suffix(".json")
    if done.exists():
        return CleanedBlock(**json.loads(done.read_text(encoding="utf-8")))
    block = block.swapped() if rules.swapped else block
    violated = rules.violations(block)
    clean = np.flatnonzero(violated == NO_RULE)
    kept = block.take(clean.tolist())
    with new_arrow_file(path, SCHEMA) as writer:
        writer.write_batch(pa.record_batch([first + clean, pair_digests(kept), kept.src, kept.tgt], SCHEMA))
    cleaned = CleanedBlock(
        np.bincount(violated, minlength=NO_RULE + 1).tolist(),
        sum(map(len, (*kept.src, *kept.tgt))),
        {
            rule: [
                DroppedPair(first + row + 1, block.src[row], block.tgt[row])
                for row in rows[:EXAMPLES_PER_RULE].tolist()
            ]
            for rule, rows in ((rule, np.flatnonzero(violated == number)) for number, rule in enumerate(RULES))
        },
    )
    write_file(done, json.dumps(asdict(cleaned)))
    return cleaned


def _block_file(folder: Path, number: int) -> Path:
    return folder / f"block-{number:05}.arrow"


@contextmanager
def _open_block(folder: Path, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the clean pairs of a block, memory-mapped."""
    with pa.memory_map(str(_block_file(folder, number))) as mapped:
        yield pa.ipc.open_file(mapped).get_batch(0)


def _read_column(folder: Path, numbers: Sequence[int], name: str, dtype: type[Number]) -> npt.NDArray[Number]:
    """Return a column of the clean pairs of all blocks, in the order of the text."""
    found = [np.zeros(0, dtype)]
    for number in numbers:
        with _open_block(folder, number) as clean:
            found.append(clean[name].to_numpy().copy())
    return np.concatenate(found)


def _read_pairs(folder: Path, rows: Rows, first_rows: Rows) -> list[DroppedPair]:
    """Return the clean pairs in these rows, given the number of clean pairs before each block."""
    pairs = []
    for row, number in zip(rows, np.searchsorted(first_rows, rows, side="right") - 1, strict=True):
        with _open_block(folder, number) as clean:
            found = clean.slice(row - first_rows[number], 1).to_pylist()[0]
            pairs.append(DroppedPair(found["row"] + 1, found["src"], found["tgt"]))
    return pairs
