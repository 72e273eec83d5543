"""Clean a training text: write the pairs that pass the cleaning rules as Arrow files, and select among them."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import TypeAdapter

from heed.characters import normalized
from heed.compat import usable_cores
from heed.data.text.cleaning import DIGEST_LIMIT, EXAMPLES_PER_RULE, RULES, CleaningReport, DroppedPair, Rows, Rules
from heed.data.text.source import Digests, Sentences, Source, pair_digests, set_digest
from heed.data.text.workers import Workers
from heed.errors import HeedError
from heed.files import replacing, write_file
from heed.options import AtLeast1, Positive, validated
from heed.progress import Advance, progress_bar

Result = TypeVar("Result")

SMALL = 2**25
"""Largest text, in bytes, that is prepared without worker processes: starting them would take longer."""
SCHEMA = pa.schema(
    [("row", pa.int64()), ("digest", pa.uint64()), ("exact", pa.uint64()), ("src", pa.string()), ("tgt", pa.string())]
)
"""The clean pairs of a block, in the order of the text: position, digests as compared and as written, both sides."""
SELECTION = "selection.npy"
"""File with two rows: the ascending positions of the selected pairs among the clean pairs, and their keys."""
REPORT = TypeAdapter(CleaningReport)  # reads a report from JSON


@validated("data.preparation.")
@dataclass(kw_only=True)
class Preparation:
    """How training text is prepared. conf/data/preparation/default.yaml explains the options."""

    num_proc: AtLeast1 | Literal["auto"]
    wait_minutes: Positive

    def workers_for(self, size: int) -> int:
        """Return the number of worker processes for a text of ``size`` bytes; 0 for a small text."""
        processes = usable_cores() if self.num_proc == "auto" else self.num_proc
        return 0 if size <= SMALL else processes


class CleanPairs:
    """The pairs of a text that cleaning keeps, in a folder that `write_clean_pairs` wrote."""

    def __init__(self, folder: Path, rules: Rules, preparation: Preparation) -> None:
        self.folder, self.rules, self.preparation = folder, rules, preparation
        content = json.loads((folder / "text.json").read_text(encoding="utf-8"))
        self.digest: str = content["digest"]
        """Digest of the pairs, independent of their order and of the file format."""
        self.bound: int = content["bound"]  # exclusive upper bound of the digests of the pairs
        self.report = REPORT.validate_python(content)  # the pairs dropped by each cleaning rule
        self.blocks = range(len(content["clean"]))  # the numbers of the text's blocks
        self._first_row = np.cumsum([0, *content["clean"]])  # pairs before each block, including duplicates
        rows, self._keys = np.load(folder / SELECTION, mmap_mode="r")
        self._rows: Rows = rows.view(np.int64)

    def __reduce__(self) -> tuple[type["CleanPairs"], tuple[Any, ...]]:
        return CleanPairs, (self.folder, self.rules, self.preparation)  # another process maps the files itself

    def __len__(self) -> int:
        return self.report.kept

    def workers(self) -> Workers:
        """Return the processes that read all pairs."""
        return Workers(self.preparation.workers_for(self.report.chars))

    def read(self, number: int, low: int = 0, high: int = DIGEST_LIMIT) -> tuple[Sentences, Digests]:
        """Return the pairs of a block with keys from ``low`` to ``high`` - 1, in order, and their keys."""
        first, stop = self._first_row[number : number + 2]
        chosen = slice(*np.searchsorted(self._rows, [first, stop]))
        rows, keys = self._rows[chosen], self._keys[chosen]
        inside = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))
        pairs = _read_block(self.folder, number).take(pa.array(rows[inside] - first))
        return Sentences(pairs["src"].to_pylist(), pairs["tgt"].to_pylist()), keys[inside]

    def map_blocks(self, function: Callable[[Sentences], Result], at_most: int, workers: Workers) -> Iterator[Result]:
        """Yield the results of a function of each block, of a sample of about ``at_most`` pairs."""
        bound = self.bound * min(at_most, len(self)) // len(self)
        tasks = [partial(self._apply, function, number, bound) for number in self.blocks]
        with progress_bar("Counting words", total=len(tasks), unit="blocks") as bar:
            for result in workers.map(tasks):
                yield result
                bar.update()

    def _apply(self, function: Callable[[Sentences], Result], number: int, bound: int) -> Result:
        return function(self.read(number, high=bound)[0])

    def lines(self) -> Rows:
        """Return the line number of each pair, counted from 0, in the order of the stored token ids."""
        return _read_column(self.folder, self.blocks, "row")[self._rows][np.argsort(self._keys)]

    @cached_property
    def _sorted_lines(self) -> Rows:
        return np.sort(self.lines())

    def digests(self) -> Digests:
        """Return the sorted digests of all clean pairs, including duplicates."""
        return np.sort(_read_column(self.folder, self.blocks, "digest"))

    def dropped(self, block: Sentences, first: int) -> dict[int, str]:
        """Return the rule that drops each dropped pair of a block after ``first`` pairs, by the pair's place in it.

        The sides of the block are swapped if the rules swap them.
        """
        compared = block.map(normalized)
        violated = self.rules.violations(compared)
        start, stop = np.searchsorted(self._sorted_lines, [first, first + len(block)])
        kept = np.isin(np.arange(first, first + len(block)), self._sorted_lines[start:stop])
        is_copy = self.rules.cleaning.drop_duplicates & (pair_digests(compared) < self.bound)
        violated[(violated == len(RULES)) & ~kept] = RULES.index("over max_train")
        violated[(violated == RULES.index("over max_train")) & is_copy] = RULES.index("duplicate")
        return {row: RULES[rule] for row, rule in enumerate(violated.tolist()) if rule < len(RULES)}


def write_clean_pairs(
    folder: Path, sources: Sequence[Source], rules: Rules, workers: Workers, heavier: Sequence[CleanPairs]
) -> None:
    """Clean a text and select its training pairs, or raise a HeedError if it is invalid or has no sentences.

    Blocks that an interrupted call has cleaned are reused. A pair that occurs in a ``heavier`` text is a duplicate.
    """
    total = 0

    def tasks(advance: Advance) -> Iterator[Callable[[], CleaningReport]]:
        nonlocal total
        for number, block in enumerate(block for source in sources for block in source.blocks(advance)):
            yield partial(_clean_block, _block_file(folder, number), block, total, rules)
            total += len(block)

    with progress_bar("Reading and cleaning", total=sum(source.size for source in sources), unit="B") as bar:
        reports = list(workers.map(tasks(bar.update)))
    if not total:
        raise HeedError(f"{', '.join(source.name for source in sources)}: no sentences.")
    digests = _read_column(folder, range(len(reports)), "digest")
    rows, keys, bound, duplicates = rules.select(digests, [text.digests() for text in heavier])
    with replacing(folder / SELECTION) as file, file.open("wb") as stream:
        np.save(stream, np.stack([rows.view(np.uint64), keys]))
    clean = [report.kept for report in reports]
    dropped = {rule: sum(report.dropped[rule] for report in reports) for rule in RULES}
    dropped |= {"duplicate": len(duplicates), "over max_train": len(digests) - len(duplicates) - len(rows)}
    examples = {
        rule: [pair for report in reports for pair in report.examples[rule]][:EXAMPLES_PER_RULE] for rule in RULES
    }
    first_rows = np.cumsum([0, *clean])
    examples["duplicate"] = [_read_pair(folder, row, first_rows) for row in duplicates[:EXAMPLES_PER_RULE]]
    report = CleaningReport(total, dropped, examples, sum(report.chars for report in reports))
    content = {
        "digest": set_digest(_read_column(folder, range(len(reports)), "exact")[rows]),
        # For people to read. File names need not be UTF-8.
        "inputs": {os.fsencode(source.name).decode(errors="replace"): source.size for source in sources},
        "clean": clean,
        "bound": bound,
        **asdict(report),
    }
    write_file(folder / "text.json", json.dumps(content, ensure_ascii=False, indent=1))


def _clean_block(path: Path, block: Sentences, first: int, rules: Rules) -> CleaningReport:
    """Write the clean pairs of the block after ``first`` pairs, unless an interrupted preparation has done so."""
    done = path.with_suffix(".json")
    if done.exists():
        return REPORT.validate_json(done.read_bytes())
    if rules.swapped:
        block = block.swapped()
    compared = block.map(normalized)
    violated = rules.violations(compared)
    *dropped, clean = (np.flatnonzero(violated == rule).tolist() for rule in range(len(RULES) + 1))
    kept, compared = block.take(clean), compared.take(clean)
    exact, digests = kept.map(str.strip), pair_digests(compared)
    exact_digests = digests if exact == compared else pair_digests(exact)
    places = [first + row for row in clean]
    write_arrow(path, pa.table([places, digests, exact_digests, kept.src, kept.tgt], schema=SCHEMA))
    violations = dict(zip(RULES, dropped, strict=True))
    report = CleaningReport(
        len(block),
        {rule: len(rows) for rule, rows in violations.items()},
        {
            rule: [DroppedPair(first + row + 1, block.src[row], block.tgt[row]) for row in rows[:EXAMPLES_PER_RULE]]
            for rule, rows in violations.items()
        },
        kept.size,
    )
    write_file(done, json.dumps(asdict(report)))
    return report


# ---- Arrow files


def write_arrow(path: Path, pairs: pa.Table, batch_rows: int | None = None) -> None:
    """Write a table, with at most ``batch_rows`` rows in a record batch. It is written completely or not at all.

    Raises:
        HeedError: if the disk is full.
    """
    # Python's open() raises OSError with an errno, by which `replacing` recognises a full disk.
    with replacing(path) as unfinished, unfinished.open("wb") as file, pa.ipc.new_file(file, pairs.schema) as writer:
        writer.write_table(pairs, batch_rows)


def _block_file(folder: Path, number: int) -> Path:
    return folder / f"block-{number:05}.arrow"


def _read_block(folder: Path, number: int) -> pa.Table:
    """Return the clean pairs of a block, memory-mapped."""
    return pa.ipc.open_file(pa.memory_map(str(_block_file(folder, number)))).read_all()


def _read_column(folder: Path, numbers: Sequence[int], name: str) -> npt.NDArray[Any]:
    """Return a column of the clean pairs of all blocks, in the order of the text."""
    return np.concatenate([np.array(_read_block(folder, number)[name]) for number in numbers])


def _read_pair(folder: Path, row: int, first_rows: Rows) -> DroppedPair:
    """Return the clean pair in this row, given the number of clean pairs before each block."""
    number = int(np.searchsorted(first_rows, row, side="right")) - 1
    (pair,) = _read_block(folder, number).slice(row - first_rows[number], 1).to_pylist()
    return DroppedPair(pair["row"] + 1, pair["src"], pair["tgt"])
