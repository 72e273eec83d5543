"""Results of a run that a hyperparameter search can optimise."""

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
"""Whether a search maximizes or minimizes each objective, by its path in results.json."""


def check_objectives(names: Sequence[str]) -> None:
    """Raise a HeedError unless every name is an objective. Scores of test sets are refused."""
    if not names or len(set(names)) < len(names):
        raise HeedError(f"sweep.objective={','.join(names)} must name one result, or several different ones.")
    for name in names:
        if name.startswith("test"):
            raise HeedError(f"sweep.objective={name} would choose by the test set: optimise valid.bleu instead.")
        if name not in DIRECTIONS:
            close = did_you_mean(name, list(DIRECTIONS), "sweep.objective=")
            raise HeedError(f"sweep.objective={name} is unknown{close}: choose from {', '.join(DIRECTIONS)}.")


def objective_values(results: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """Return the objectives in the content of results.json; raise a HeedError if one is missing or not finite."""
    values = []
    for name in names:
        value: Any = results
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if not isinstance(value, (int, float)):
            raise HeedError(f"The results hold no number for {name}: it was not measured, or is not finite.")
        values.append(float(value))
    return values
