"""What runs came to, read from their folders: ``heed runs`` and the end of a sweep show the same table."""

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from heed.errors import HeedError
from heed.options import allows, described, shown

Row = dict[str, Any]

OVERRIDES = "overrides.yaml"
"""In a sweep's job: what it was told on top of the configuration, a list of ``key=value``."""
FAILURE = "failure.txt"
"""In a sweep's job that failed: why, in its first line; then where."""

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
"""A row's keys in the table's order, each with its title and how its values are written."""

FACTS = ("name", "model", "data", "seed", "params", "steps", "epochs", "tokens_per_second", "weights", "git")
"""What a row takes from a run's results as it is."""

Scores = Mapping[str, Any]
RESULTS: dict[str, Any] = {
    **dict.fromkeys(("name", "model", "data", "data_fingerprint", "tokenizer_hash", "device", "weights"), str),
    **dict.fromkeys(("src_lang", "tgt_lang", "git", "model_dir"), str | None),
    **dict.fromkeys(("seed", "params", "steps", "tokens"), int),
    **dict.fromkeys(("epochs", "train_seconds", "tokens_per_second"), float),
    "search": Mapping[str, Any],
    "decode_seconds": Mapping[str, float],
    "valid": Scores | None,
    "test": Scores | None,
    "tests": Mapping[str, Scores],
}
"""Types in a run's results.json."""
SCORES: dict[str, Any] = {
    **dict.fromkeys(("bleu", "chrf"), float),
    "loss": float | None,
    **dict.fromkeys(("bleu_signature", "chrf_signature"), str),
}
"""Types in each of its score sets."""

LESS_IS_BETTER = {"params", "minutes", "valid_loss", "test_loss"}


def read_runs(folder: Path) -> list[Row]:
    """One row for each run at or under ``folder``, by its path.

    A finished run has the figures of its results, another its last step and its best validation BLEU so far (greedy,
    where a finished one's is that of the search it is used with). Unknown figures are None; ``settings`` are those in
    which the jobs of a sweep differ.

    Raises:
        HeedError: if there is no run.
    """
    rows = [_figures(run) | {"run": str(run.relative_to(folder))} for run in _find(folder)] if folder.is_dir() else []
    if not rows:
        raise HeedError(f"{folder} holds no runs: `python train.py` makes them, in the folder runs.")
    for row in rows:
        siblings = [other["overrides"] for other in rows if Path(other["run"]).parent == Path(row["run"]).parent]
        row["settings"] = " ".join(o for o in row["overrides"] if not all(o in others for others in siblings))
    return rows


def sort_runs(rows: Sequence[Row], key: str) -> list[Row]:
    """Best first where better is known, unknown figures last; texts in their order, "2_rnn" before "10_rnn".

    Raises:
        HeedError: if ``key`` is none of `COLUMNS`.
    """
    if key not in COLUMNS:
        raise HeedError(f"Runs cannot be sorted by {key!r}: choose one of {', '.join(COLUMNS)}.")
    known = [row for row in rows if row[key] is not None]
    if key in ("run", "settings", "state"):
        known.sort(key=lambda row: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", row[key])])
    else:
        known.sort(key=lambda row: row[key], reverse=key not in LESS_IS_BETTER)
    return known + [row for row in rows if row[key] is None]


def table(rows: Sequence[Row]) -> str:
    """Rows as aligned text under their titles; a column in which nothing is known is left out."""
    shown = {key: form for key, form in COLUMNS.items() if any(row[key] not in (None, "") for row in rows)}
    lines = [[title for title, _ in shown.values()]]
    lines += [["" if row[key] is None else format(row[key], form) for key, (_, form) in shown.items()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    # Figures stand right under each other, texts begin together.
    aligned = [f"{'>' if form else '<'}{width}" for (_, form), width in zip(shown.values(), widths, strict=True)]
    return "\n".join("  ".join(map(format, line, aligned)).rstrip() for line in lines)


def _find(folder: Path) -> Iterator[Path]:
    """Folders of runs, from the outside in: what lies inside a run (its model) is none."""
    if any((folder / file).is_file() for file in ("config.yaml", FAILURE)):
        yield folder
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _find(path)


def _figures(run: Path) -> Row:
    row: Row = dict.fromkeys((*FACTS, *COLUMNS)) | {"overrides": _overrides(run / OVERRIDES)}
    if (run / "results.json").is_file():
        try:
            return row | _finished(read_results(run / "results.json"))
        except (HeedError, KeyError):
            return row | {"state": "results.json cannot be read"}
    if (run / "metrics.csv").is_file():
        try:
            row |= _unfinished(run / "metrics.csv")
        except (OSError, ValueError, KeyError, TypeError, csv.Error):
            row["state"] = "metrics.csv cannot be read"
    if (run / FAILURE).is_file():
        failure = (run / FAILURE).read_text(encoding="utf-8", errors="replace")
        return row | {"state": "failed: " + failure.partition("\n")[0]}
    return row | {"state": row["state"] or "unfinished"}


def read_results(file: Path) -> dict[str, Any]:
    """A run's ``results.json``, in which each of the `RESULTS` that is there has its type.

    Raises:
        HeedError: if it is not what a run writes.
    """
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise HeedError(f"{file} is not what a run writes: copy it again.") from error
    if not isinstance(results, dict):
        raise HeedError(f"{file} is not what a run writes: copy it again.")
    sets = {"valid": results.get("valid"), "test": results.get("test")}
    parts = [("", RESULTS, results)]
    if isinstance(results.get("tests"), dict):
        sets |= {f"tests.{name}": scores for name, scores in results["tests"].items()}
    parts += [(f"{name}.", SCORES, scores) for name, scores in sets.items() if isinstance(scores, dict)]
    for where, kinds, part in parts:
        for key, kind in kinds.items():
            if key in part and not allows(kind, part[key]):
                raise HeedError(
                    f"{file} is not what a run writes: {where}{key}={shown(part[key])} must be {described(kind)}. "
                    "Copy it again."
                )
    return results


def _overrides(file: Path) -> list[str]:
    """What a job of a sweep was told; nothing where that cannot be read."""
    try:
        told = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else []
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    return [str(override) for override in told] if isinstance(told, list) else []


def _finished(results: Mapping[str, Any]) -> Row:
    scores = {
        f"{split}_{key}": results[split][key]
        for split in ("valid", "test")
        if results[split]
        for key in ("bleu", "chrf", "loss")
    }
    row = {**{key: results[key] for key in FACTS}, "minutes": results["train_seconds"] / 60, **scores, "state": ""}
    # What is not a number has no place in an order, nor in JSON.
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _unfinished(metrics: Path) -> Row:
    with metrics.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    bleu = [value for row in rows if row["valid_bleu"] and math.isfinite(value := float(row["valid_bleu"]))]
    return {"steps": int(rows[-1]["step"]) if rows else 0, "valid_bleu": max(bleu, default=None)}
