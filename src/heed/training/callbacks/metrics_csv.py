"""The file ``metrics.csv`` of a run."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from heed.files import replacing


class MetricsCSV:
    """Writes one row per report of training metrics and one row per validation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fields: list[str] = []

    def start(self, *, after_step: int, metrics: Iterable[str] = ()) -> None:
        """Create the file, or remove the rows after a step: a resumed run writes them again.

        Args:
            after_step: the last step whose rows are kept.
            metrics: names of validation metrics other than loss, BLEU, chrF and AER.
        """
        scores = ("loss", "bleu", "chrf", *metrics, "aer")
        self.fields = ["step", "epoch", "lr", "loss", "nll", "grad_norm", *(f"valid_{name}" for name in scores)]
        kept = [row for row in _complete_rows(self.path) if int(row["step"]) <= after_step]
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


def _complete_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of a metrics file, except those that a kill or a full disk truncated."""
    if not path.is_file():
        return []
    # Drop a last row without a line end: its last number may be truncated.
    text, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    rows = csv.DictReader(text.splitlines(), restkey="surplus")
    return [
        row for row in rows if "surplus" not in row and None not in row.values() and (row["step"] or "").isdecimal()
    ]
