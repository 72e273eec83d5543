"""Files with a record for each step at which a run reports something: rows of CSV, or JSON lines.

A resumed run removes the records after its checkpoint, and writes them again.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.files import replacing, write_file

SPEED = "speed.csv"
"""What depends on the clock, and is therefore not in ``metrics.csv``; and the tokens so far."""
SAMPLES = "samples.jsonl"
DIAGNOSES = "diagnoses.jsonl"
ATTENTION, HEADS, ARRAYS, PIECES = "attention", "heads.csv", "maps.npz", "pieces.json"
"""The folder of the attention maps; in it what each head does at each validation; the weights in its folder of a step;
the sentences that they belong to."""

MAX_KEPT = 100  # validations whose samples and attention maps are kept


class CSVRecords:
    """A CSV file with a header."""

    def __init__(self, path: Path, fields: Sequence[str]) -> None:
        self.path, self.fields = path, fields

    def start(self, *, after_step: int) -> None:
        """Create the file, or remove the rows after a step."""
        kept = [row for row in read_csv(self.path) if int(row["step"]) <= after_step]
        with replacing(self.path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.fields)
            writer.writeheader()
            writer.writerows({field: row.get(field) for field in self.fields} for row in kept)

    def append(self, *rows: Mapping[str, Any]) -> None:
        """Append rows; fields that are not given stay empty."""
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.fields).writerows(
                {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
                for row in rows
            )


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file, except those that a kill or a full disk truncated; none if there is no file."""
    header, *rows = [*csv.reader(_complete_lines(path))] or [[]]
    return [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the records of a file of JSON lines, except a truncated last one; none if there is no file."""
    return [json.loads(line) for line in _complete_lines(path)]


def keep_json_lines(path: Path, keep: Callable[[int], bool], new: Iterable[Mapping[str, Any]] = ()) -> None:
    """Keep the records of some steps in a file of JSON lines, and append new ones."""
    records = [*(record for record in read_json_lines(path) if keep(record["step"])), *new]
    if records or path.exists():
        write_file(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def is_kept(step: int, *, now: int, every: int) -> bool:
    """Return whether samples and maps of an earlier validation are kept at step ``now``, at most `MAX_KEPT` in all.

    Of validations every ``every`` steps, all are kept, later each second, fourth, and so on. This depends on the steps
    alone, so that a resumed run keeps the same ones as an uninterrupted run.
    """
    stride = every
    while now > stride * MAX_KEPT:
        stride *= 2
    return step < now and (stride == every or step % stride == 0)


def _complete_lines(path: Path) -> list[str]:
    # Without a last line that has no end: its last number may be truncated.
    text, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n") if path.is_file() else [""] * 3
    return text.split("\n") if text else []
