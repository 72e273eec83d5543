"""A claim about attention, and the result of its experiment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.measures import Figure, Runs
from experiments.runner import ModelSpec


@dataclass(frozen=True)
class Finding:
    """The result of an experiment."""

    held: bool
    """Whether the claim held."""
    summary: str
    """One or two sentences with the numbers that decide."""
    numbers: Mapping[str, Any]
    """All measured numbers, which `experiments.measures.plain` converts to JSON."""
    table: Sequence[Figure]
    """The numbers that docs/claims.md shows."""


@dataclass(frozen=True)
class Claim:
    """A statement that courses make, and the experiment that tests it."""

    name: str
    """As on the command line."""
    claim: str
    """The statement."""
    measurement: str
    """What is measured, and when the claim holds."""
    models: Mapping[str, ModelSpec]
    """The models to train, by label."""
    experiment: Callable[[Runs], Finding]
    """Measures the runs of ``models``."""
