"""Measurements of several experiments: values over seeds, BLEU, contrastive accuracy, and loss curves."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.runner import TrainedModel
from heed.comparison.challenge import Accuracy, ContrastivePair, built_in_challenge, contrastive_accuracy

Runs = Mapping[str, Sequence[TrainedModel]]
"""By label of a model, its runs with the seeds 1, 2, …"""
PER_TAG = 400
"""Contrasts for each phenomenon."""
TAGS = {"pronoun": "it → er, sie, es", "sense": "bank → Bank or Ufer", "roles": "who does what", "far": "far reference"}
"""Phenomena of the challenge set that only the context decides."""


class Values:
    """A measurement of one model with several seeds. Formatted as mean ± standard deviation: "93.1 ± 0.4"."""

    def __init__(self, values: Iterable[float]) -> None:
        self.values = [float(value) for value in values]

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    def __format__(self, spec: str) -> str:
        return f"{self.mean:{spec}}" + ("" if self.sd is None else f" ± {self.sd:{spec}}")

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """Sample standard deviation; None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Figure:
    """A line of the table in docs/claims.md."""

    what: str
    values: Iterable[float]
    """One for each seed; a single value if it does not depend on a seed."""
    spec: str = ".1f"
    """How Python formats a value; ".1%" for shares from 0 to 1."""

    def plain(self) -> dict[str, Any]:
        """Return the line for docs/results/claims.json: mean ± standard deviation, and the values."""
        values = Values(self.values)
        text = f"{values:{self.spec}}".replace("% ±", " ±").replace("%", " %")
        return {"what": self.what, "value": text, "values": [float(f"{value:.4g}") for value in values]}


def plain(value: Any) -> Any:
    """Convert `Values`, arrays and dataclasses for ``json.dumps(…, default=plain)``."""
    if isinstance(value, Values):
        return {"mean": value.mean, "sd": value.sd, "values": value.values}
    return value.tolist() if isinstance(value, np.ndarray) else asdict(value)


def over_seeds(runs: Runs, measure: Callable[[TrainedModel], float]) -> dict[str, Values]:
    """Measure each run, and return the values of each model."""
    return {label: Values(map(measure, seeds)) for label, seeds in runs.items()}


def bleu(runs: Runs, split: str) -> dict[str, Values]:
    """Return the BLEU of each model on ``valid``, ``test`` or ``long``."""
    return over_seeds(runs, lambda run: run.bleu(split))


def contrasts(*tags: str) -> list[ContrastivePair]:
    """Return the contrasts of these phenomena; of all phenomena if none is named."""
    return [contrast for contrast in built_in_challenge(PER_TAG) if not tags or contrast.tag in tags]


def accuracies(runs: Runs, *tags: str) -> dict[str, dict[str, list[Accuracy]]]:
    """Return the contrastive accuracy of each model by phenomenon, one for each seed."""
    challenge_set = contrasts(*tags)
    found = {
        label: [contrastive_accuracy(run.translator, challenge_set) for run in seeds] for label, seeds in runs.items()
    }
    return {label: {tag: [run[tag] for run in seeds] for tag in tags} for label, seeds in found.items()}


def fractions(found: Iterable[Accuracy]) -> Values:
    """Return the accuracies of several seeds as numbers from 0 to 1."""
    return Values(accuracy.fraction for accuracy in found)
