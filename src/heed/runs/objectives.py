"""The results of a run that a hyperparameter search may optimise."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from heed.errors import HeedError
from heed.options import did_you_mean

StudyDirection = Literal["maximize", "minimize"]

DIRECTIONS: Mapping[str, StudyDirection] = {
    "valid.bleu": "maximize",
    "valid.chrf": "maximize",
    "valid.loss": "minimize",
    "tokens_per_second": "maximize",
    "train_seconds": "minimize",
    "decode_seconds.valid": "minimize",
    "params": "minimize",
}
"""Numbers in results.json by their path, and whether a search maximizes or minimizes them."""


def check_objectives(names: Sequence[str]) -> None:
    """Check that every name is a result that can be optimised.

    Raises:
        HeedError: for an unknown result, and for scores of test sets.
    """
    if not names or len(set(names)) < len(names):
        raise HeedError(f"sweep.objective={','.join(names)} must name one result, or several different ones.")
    for name in names:
        if name.startswith("test"):
            raise HeedError(f"sweep.objective={name} would choose by the test set: optimise valid.bleu instead.")
        if name not in DIRECTIONS:
            close = did_you_mean(name, list(DIRECTIONS), "sweep.objective=")
            raise HeedError(f"sweep.objective={name} is unknown{close}: choose from {', '.join(DIRECTIONS)}.")


def objective_values(results: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """Return the objectives of a finished run.

    Args:
        results: the content of results.json.

    Raises:
        HeedError: if a value is missing, such as a loss that is not finite.
    """
    values = []
    for name in names:
        value: Any = results
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if not isinstance(value, (int, float)):
            raise HeedError(f"The results hold no number for {name}: it was not measured, or is not finite.")
        values.append(float(value))
    return values
