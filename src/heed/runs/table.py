"""The table of runs that ``heed runs`` and the end of a sweep print."""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from heed.errors import HeedError
from heed.runs.checkpoints import METRICS
from heed.runs.claim import HYDRA_FOLDER
from heed.runs.config import CONFIG
from heed.runs.results import RESULTS, read_results

Row = dict[str, Any]

OVERRIDES = (f"{HYDRA_FOLDER}/overrides.yaml", "overrides.yaml")
"""Files with a run's overrides, a list of ``key=value``; the second in the jobs of older sweeps."""
FAILURE = "failure.txt"
"""Written where a sweep's job failed: the reason in the first line, then the traceback."""

COLUMNS = {
    "run": ("run", ""),
    "settings": ("settings", ""),
    "params": ("parameters", ","),
    "steps": ("steps", ","),
    "minutes": ("minutes", ".1f"),
    "valid_bleu": ("valid BLEU", ".2f"),
    "valid_chrf": ("chrF", ".2f"),
    "valid_loss": ("loss", ".3f"),
    "test_bleu": ("test BLEU", ".2f"),
    "test_chrf": ("chrF", ".2f"),
    "test_loss": ("loss", ".3f"),
    "state": ("state", ""),
}
"""The columns in order: the key of a row, the title, and the format of the values."""

FACTS = ("name", "model", "data", "seed", "params", "steps", "epochs", "tokens_per_second", "weights", "git")
"""Fields of results.json that a row repeats."""

LOWER_IS_BETTER = {"params", "minutes", "valid_loss", "test_loss"}


def read_runs(folder: Path) -> list[Row]:
    """Return one row for each run at or under ``folder``, sorted by path.

    The scores of a finished run are those of its results. An unfinished run has its last step and its best validation
    BLEU so far, which is of greedy search. Unknown values are None; ``settings`` are the overrides in which the runs
    of a folder differ, such as the jobs of a sweep.

    Raises:
        HeedError: if there is no run.
    """
    rows = [_row(run) | {"run": str(run.relative_to(folder))} for run in _find_runs(folder)] if folder.is_dir() else []
    if not rows:
        raise HeedError(f"{folder} holds no runs: `python train.py` makes them in the folder runs.")
    for row in rows:
        siblings = [other["overrides"] for other in rows if Path(other["run"]).parent == Path(row["run"]).parent]
        row["settings"] = " ".join(o for o in row["overrides"] if not all(o in others for others in siblings))
    return rows


def sort_runs(rows: Sequence[Row], key: str) -> list[Row]:
    """Sort rows by a column: best values first, unknown ones last, text in natural order ("2_rnn" before "10_rnn").

    Raises:
        HeedError: if ``key`` is not in `COLUMNS`.
    """
    if key not in COLUMNS:
        raise HeedError(f"Runs cannot be sorted by {key!r}: choose one of {', '.join(COLUMNS)}.")
    known = [row for row in rows if row[key] is not None]
    if key in ("run", "settings", "state"):
        known.sort(key=lambda row: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", row[key])])
    else:
        known.sort(key=lambda row: row[key], reverse=key not in LOWER_IS_BETTER)
    return known + [row for row in rows if row[key] is None]


def table(rows: Sequence[Row]) -> str:
    """Format rows as aligned text under their titles; columns without any value are left out."""
    columns = {key: column for key, column in COLUMNS.items() if any(row[key] not in (None, "") for row in rows)}
    lines = [[title for title, _ in columns.values()]]
    lines += [
        ["" if row[key] is None else format(row[key], form) for key, (_, form) in columns.items()] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    # Numbers are aligned right, text left.
    aligned = [f"{'>' if form else '<'}{width}" for (_, form), width in zip(columns.values(), widths, strict=True)]
    return "\n".join("  ".join(map(format, line, aligned)).rstrip() for line in lines)


def _find_runs(folder: Path) -> Iterator[Path]:
    """Yield run folders. Folders inside a run, such as its model, are not searched."""
    if any((folder / file).is_file() for file in (CONFIG, FAILURE)):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name != HYDRA_FOLDER:
            yield from _find_runs(path)


def _row(run: Path) -> Row:
    row: Row = dict.fromkeys((*FACTS, *COLUMNS)) | {"overrides": _overrides(run)}
    if (run / RESULTS).is_file():
        try:
            return row | _finished(read_results(run / RESULTS))
        except (HeedError, KeyError):
            return row | {"state": f"{RESULTS} cannot be read"}
    if (run / METRICS).is_file():
        try:
            row |= _unfinished(run / METRICS)
        except (OSError, ValueError, KeyError, TypeError, csv.Error):
            row["state"] = f"{METRICS} cannot be read"
    if (run / FAILURE).is_file():
        failure = (run / FAILURE).read_text(encoding="utf-8", errors="replace")
        return row | {"state": "failed: " + failure.partition("\n")[0]}
    return row | {"state": row["state"] or "unfinished"}


def _overrides(run: Path) -> list[str]:
    """Return the overrides of a run, none where the file is missing or cannot be read."""
    file = next((run / name for name in OVERRIDES if (run / name).is_file()), None)
    try:
        overrides = yaml.safe_load(file.read_text(encoding="utf-8")) if file else []
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    return [str(override) for override in overrides] if isinstance(overrides, list) else []


def _finished(results: Mapping[str, Any]) -> Row:
    scores = {
        f"{split}_{key}": results[split][key]
        for split in ("valid", "test")
        if results[split]
        for key in ("bleu", "chrf", "loss")
    }
    row = {**{key: results[key] for key in FACTS}, "minutes": results["train_seconds"] / 60, **scores, "state": ""}
    # NaN cannot be sorted, nor written as JSON.
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _unfinished(metrics: Path) -> Row:
    with metrics.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    bleu = [value for row in rows if row["valid_bleu"] and math.isfinite(value := float(row["valid_bleu"]))]
    return {"steps": int(rows[-1]["step"]) if rows else 0, "valid_bleu": max(bleu, default=None)}
