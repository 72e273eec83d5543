"""The options ``select=`` and ``weights=``: how checkpoints are ranked, and which weights a run ends with."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import torch

from heed.errors import HeedError
from heed.evaluation.comet import Comet
from heed.progress import print_line
from heed.runs.averaging import checkpoint_weights, mean
from heed.runs.checkpoints import checkpoint_step
from heed.runs.selection import MIN_BLEU, SIGN, Metric, Selection
from heed.training.callbacks.checkpoints import Checkpoints
from heed.training.callbacks.ema import EMA

WEIGHTS = ("best", "last", "ema", "average_best_k", "average_last_k")
COMET_MODEL = "Unbabel/wmt22-comet-da"


def load_selection(metric: str) -> tuple[Selection, Comet | None]:
    """Return how validations are ranked, and the COMET model if the ranking needs it.

    If COMET or its weights are not installed, the reason is printed and BLEU ranks.
    """
    if metric not in SIGN:
        raise HeedError(f"select={metric} is unknown: choose one of {', '.join(SIGN)}.")
    if metric == "comet":
        try:
            return Selection("comet"), Comet(COMET_MODEL)
        except HeedError as error:
            print_line(f"select=bleu is used instead of select=comet: {error}")
            return Selection("bleu"), None
    return Selection(cast(Metric, metric)), None


def check_weights_option(weights: str, trainer: Mapping[str, Any], callbacks: Iterable[Any]) -> None:
    """Check that the run will keep the checkpoints that ``weights=`` needs.

    Args:
        trainer: its options.
        callbacks: the optional callbacks.

    Raises:
        HeedError: if they will not.
    """
    if weights not in WEIGHTS:
        raise HeedError(f"weights={weights} is unknown: choose one of {', '.join(WEIGHTS)}.")
    ema = next((c.decay for c in callbacks if isinstance(c, EMA)), None)
    if weights == "ema" and ema is None:
        raise HeedError("weights=ema needs a moving average: set callbacks.ema.decay, for example to 0.999.")
    if weights in ("best", "average_best_k") and ema is not None:
        raise HeedError(
            f"callbacks.ema.decay={ema} ranks checkpoints by their averaged weights, which weights={weights} does not "
            "use: choose weights=ema, or callbacks.ema.decay=null."
        )
    option = "keep_last" if weights in ("last", "average_last_k") else "keep_best"
    if trainer[option] == 0:
        raise HeedError(f"weights={weights} needs a checkpoint, but trainer.{option}=0 keeps none: choose 1 or more.")
    if trainer[option] == 1 and weights.startswith("average"):
        raise HeedError(f"weights={weights} averages several checkpoints: set trainer.{option} to 2 or more.")


def choose_checkpoints(weights: str, checkpoints: Checkpoints) -> list[Path]:
    """Return the checkpoints that ``weights=`` names: one, or several to average.

    Raises:
        HeedError: if there is none.
    """
    paths = {
        "best": checkpoints.best[:1],
        "last": checkpoints.last[:1],
        "ema": checkpoints.best[:1],
        "average_best_k": sorted(checkpoints.best),
        "average_last_k": sorted(checkpoints.last),
    }[weights]
    if not paths:
        raise HeedError(
            f"weights={weights} needs a checkpoint, but {checkpoints.folder} holds none: the run was not validated, "
            "or the checkpoint was deleted. Train longer: raise trainer.max_steps or trainer.max_epochs."
        )
    return paths


def deciding_metric(checkpoints: Checkpoints) -> Metric:
    """Return the metric that chose the best checkpoint."""
    if not checkpoints.best:
        return checkpoints.selection.metric
    return checkpoints.selection.deciding_metric(checkpoints.scores[checkpoint_step(checkpoints.best[0])])


def chosen_weights(weights: str, checkpoints: Checkpoints) -> dict[str, torch.Tensor]:
    """Return the model's weights that ``weights=`` names: of one checkpoint, or the mean of several.

    It is printed if the loss chose the best checkpoint instead of the metric of ``select=``.
    """
    if weights in ("best", "average_best_k", "ema") and deciding_metric(checkpoints) != checkpoints.selection.metric:
        print_line(f"weights={weights}: no validation reached {MIN_BLEU:g} BLEU, so the loss chose the checkpoint.")
    return mean(checkpoint_weights(path, ema=weights == "ema") for path in choose_checkpoints(weights, checkpoints))
