"""Checkpoint files of a run: ``checkpoints/best-STEP.ckpt`` and ``checkpoints/last-STEP.ckpt``."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from heed.errors import HeedError
from heed.files import check_regular
from heed.runs.config import find_config
from heed.runs.selection import BUILT_IN, Selection

CHECKPOINTS = "checkpoints"
METRICS = "metrics.csv"


def checkpoint_step(path: Path) -> int:
    """Return the optimizer step in a checkpoint's file name, -1 for a file of another name."""
    match = re.fullmatch(r"\w+-(\d+)\.ckpt", path.name)
    return int(match[1]) if match else -1


def latest_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint from which the run resumes, if it has one."""
    return max((run / CHECKPOINTS).glob("last-*.ckpt"), key=checkpoint_step, default=None)


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """Return the ``count`` latest checkpoints of a run by step.

    Raises:
        HeedError: if the run kept fewer.
    """
    return _last_of(_kept(run, "last"), run, "last", count)


def best_checkpoints(run: Path, count: int) -> list[Path]:
    """Return the ``count`` best checkpoints of a run by validation, the best one last; ``select=`` names the metric.

    Raises:
        HeedError: if the run kept fewer, or its metrics.csv cannot be read.
    """
    selection = Selection((find_config(run) or {}).get("select", "bleu"))
    scores = _validation_scores(run / METRICS, (*BUILT_IN, selection.metric))
    validated = [path for path in _kept(run, "best") if checkpoint_step(path) in scores]
    # Of equal scores the earlier step is better, as in training.
    validated.sort(key=lambda path: (selection.key(scores[checkpoint_step(path)]), -checkpoint_step(path)))
    return _last_of(validated, run, "best", count)


def _kept(run: Path, kind: Literal["best", "last"]) -> list[Path]:
    paths = (run / CHECKPOINTS).glob(f"{kind}-*.ckpt")
    return sorted((path for path in paths if checkpoint_step(path) >= 0), key=checkpoint_step)


def _last_of(paths: list[Path], run: Path, kind: Literal["best", "last"], count: int) -> list[Path]:
    if not 1 <= count <= len(paths):
        raise HeedError(
            f"{run} has {len(paths)} {kind} checkpoints, not {count}: trainer.keep_{kind} sets how many a run keeps."
        )
    return paths[-count:]


def _validation_scores(metrics: Path, names: Iterable[str]) -> dict[int, dict[str, float]]:
    """Return by step the validation scores of these names, as far as they were measured."""
    check_regular(metrics)
    try:
        with metrics.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["valid_bleu"]]
        known = [metric for metric in names if rows and rows[0].get(f"valid_{metric}")]
        return {int(row["step"]): {metric: float(row[f"valid_{metric}"]) for metric in known} for row in rows}
    except OSError as error:
        raise HeedError(
            f"{metrics}, which holds the validation scores, cannot be read ({error.strerror}): name the checkpoints "
            "themselves."
        ) from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise HeedError(
            f"{metrics}, which holds the validation scores, is damaged: name the checkpoints themselves."
        ) from error
