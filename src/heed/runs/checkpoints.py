"""Checkpoints of a run, ``checkpoints/best-STEP.ckpt`` and ``last-STEP.ckpt``: their names, ranking and format."""

import csv
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

from heed.errors import HeedError
from heed.evaluation.metrics import LOWER_IS_BETTER
from heed.files import check_regular
from heed.runs.config import find_config
from heed.runs.records import read_csv

CHECKPOINTS = "checkpoints"
METRICS_FILE = "metrics.csv"
BUILT_IN = ("bleu", "chrf", "loss")
"""The metrics of every validation, in tie-breaking order. ``metrics=`` and ``select=`` add others."""
MIN_RANKED_BLEU = 1.0  # below this, differences are random: a few matching words of a model that does not translate yet
FORMAT_KEY = "heed_format"
"""The key of `heed.run_format.RUN_FORMAT` in a checkpoint."""


# ---- ranking


def sign(metric: str) -> int:
    """Return the factor that makes higher values better."""
    return -1 if metric == "loss" or metric in LOWER_IS_BETTER else 1


@dataclass(frozen=True)
class Selection:
    """Ranks validations by one metric. BLEU, chrF and loss break ties, in this order.

    Validations below ``MIN_RANKED_BLEU`` rank last. If the metric is BLEU, they are ranked by loss.
    """

    metric: str = "bleu"

    def key(self, scores: Mapping[str, float]) -> tuple[float, ...]:
        """Return a sort key, higher for the better validation. Metrics missing from ``scores`` are left out."""
        first = self.deciding_metric(scores)
        values = [sign(metric) * scores[metric] for metric in dict.fromkeys((first, *BUILT_IN)) if metric in scores]
        return (float(first == self.metric), *(value if value == value else -inf for value in values))

    def ranked(self, scores: Mapping[int, Mapping[str, float]]) -> list[int]:
        """Return the steps of validations, best first; among equals the earlier one first."""
        return sorted(scores, key=lambda step: (self.key(scores[step]), -step), reverse=True)

    def deciding_metric(self, scores: Mapping[str, float]) -> str:
        """Return the metric that ranks this validation against others that are not better."""
        return "loss" if self.metric == "bleu" and scores["bleu"] < MIN_RANKED_BLEU else self.metric


# ---- the files


def checkpoint_step(path: Path) -> int:
    """Return the optimizer step in a checkpoint's file name, or -1 for other file names."""
    match = re.fullmatch(r"\w+-(\d+)\.ckpt", path.name)
    return int(match[1]) if match else -1


def latest_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint from which the run resumes, or None."""
    return max((run / CHECKPOINTS).glob("last-*.ckpt"), key=checkpoint_step, default=None)


def kept_checkpoints(run: Path, kind: Literal["best", "last"], count: int) -> list[Path]:
    """Return the ``count`` best checkpoints of a run by the metric of ``select=``, the best one last, or the latest.

    Raises:
        HeedError: if the run kept fewer, or its metrics.csv cannot be read.
    """
    paths = {checkpoint_step(path): path for path in (run / CHECKPOINTS).glob(f"{kind}-*.ckpt")}
    steps = sorted((step for step in paths if step >= 0), reverse=True)
    if kind == "best":
        selection = Selection((find_config(run) or {}).get("select", "bleu"))
        scores = _validation_scores(run / METRICS_FILE, (*BUILT_IN, selection.metric))
        steps = selection.ranked({step: scores[step] for step in steps if step in scores})
    if not 1 <= count <= len(steps):
        raise HeedError(
            f"{run} has {len(steps)} {kind} checkpoints, not {count}: trainer.keep_{kind} sets how many a run keeps."
        )
    return [paths[step] for step in reversed(steps[:count])]


def _validation_scores(metrics: Path, names: Iterable[str]) -> dict[int, dict[str, float]]:
    """Return the measured validation scores with these names, by step."""
    check_regular(metrics)
    try:
        rows = [row for row in read_csv(metrics) if row["valid_bleu"]]
        known = [metric for metric in names if rows and rows[0].get(f"valid_{metric}")]
        return {int(row["step"]): {metric: float(row[f"valid_{metric}"]) for metric in known} for row in rows}
    except OSError as error:
        raise HeedError(
            f"The validation scores in {metrics} cannot be read ({error.strerror}): name the checkpoints themselves."
        ) from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise HeedError(f"The validation scores in {metrics} are damaged: name the checkpoints themselves.") from error


# ---- the format


def check_undamaged(path: Path) -> None:
    """Compare a checkpoint with the CRCs in its archive, because torch writes them but does not check them.

    Raises:
        Exception: of various types, if the archive is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(damaged)
