"""Files with records of training steps, which a run writes as it trains: rows of CSV, or JSON lines.

Each record has a ``step``. A resumed run removes the records after its checkpoint, and writes them again.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.files import replacing

SPEED = "speed.csv"
"""Tokens, seconds and speed by step: what depends on the clock, and is therefore not in ``metrics.csv``."""
SAMPLES = "samples.jsonl"
"""Sample translations at each validation."""
ATTENTION, ARRAYS, PIECES = "attention", "maps.npz", "pieces.json"
"""The folder of the attention maps; in the folder of a step, the weights; the sentences that they belong to."""
DIAGNOSES = "diagnoses.jsonl"
"""Symptoms of a run that goes wrong, as sentences."""

MAX_KEPT = 100
"""Validations whose samples and attention maps are kept."""


class CSVRecords:
    """A CSV file with a header."""

    def __init__(self, path: Path, fields: Sequence[str]) -> None:
        self.path = path
        self.fields = fields

    def start(self, *, after_step: int) -> None:
        """Create the file, or remove the rows after a step."""
        kept = [row for row in read_csv(self.path) if int(row["step"]) <= after_step]
        with replacing(self.path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.fields)
            writer.writeheader()
            writer.writerows({field: row.get(field) for field in self.fields} for row in kept)

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row; fields that are not given stay empty."""
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.fields).writerow(
                {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
            )


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file, except those that a kill or a full disk truncated; none if there is no file."""
    header, *rows = [*csv.reader(_complete_lines(path))] or [[]]
    return [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Read the records of a file of JSON lines, except truncated ones; none if there is no file."""
    records = []
    for line in _complete_lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records


def keep_json_lines(path: Path, keep: Callable[[int], bool], new: Iterable[Mapping[str, Any]] = ()) -> None:
    """Keep the records of some steps in a file of JSON lines, and append new ones."""
    records = [*(record for record in read_json_lines(path) if keep(record["step"])), *new]
    if records or path.exists():
        with replacing(path) as partial:
            lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            partial.write_text("".join(lines), encoding="utf-8")


def is_kept(step: int, *, now: int, every: int) -> bool:
    """Return whether the samples and maps of an earlier validation are still kept at step ``now``.

    With validations every ``every`` steps, those at multiples of ``every`` × 1, 2, 4, … are kept, so that there are at
    most `MAX_KEPT`. This depends on the steps alone: a resumed run keeps what an uninterrupted one keeps.
    """
    stride = every
    while now > stride * MAX_KEPT:
        stride *= 2
    return step < now and step % stride == 0


def _complete_lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    # Without the last line if it has no end: its last number may be truncated.
    text, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    return text.split("\n") if text else []
