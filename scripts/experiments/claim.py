"""A claim about attention, and the result of its experiment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from experiments.runner import ExperimentRunner, ModelSpec


@dataclass(frozen=True)
class Finding:
    """The result of an experiment.

    Attributes:
        held: whether the claim held.
        summary: one or two sentences with the numbers that decide.
        numbers: all measured numbers, as JSON data.
        figures: HTML fragments.
    """

    held: bool
    summary: str
    numbers: Mapping[str, Any]
    figures: Sequence[Markup]


@dataclass(frozen=True)
class Claim:
    """A statement that courses make, and the experiment that tests it.

    Attributes:
        name: how the command line calls it.
        claim: the statement.
        measurement: what is measured, and when the claim holds.
        models: the models that the experiment needs.
        experiment: measures, given a runner that has trained ``models``.
    """

    name: str
    claim: str
    measurement: str
    models: Sequence[ModelSpec]
    experiment: Callable[[ExperimentRunner], Finding]
