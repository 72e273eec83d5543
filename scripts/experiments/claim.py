"""What a claim is, and what an experiment finds out about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.laboratory import Laboratory, Recipe


@dataclass(frozen=True)
class Finding:
    """What was measured."""

    held: bool
    summary: str
    """In words, with the numbers that decide."""
    numbers: Mapping[str, Any]
    """All of them, as plain data."""
    figures: Sequence[str]
    """As HTML."""


@dataclass(frozen=True)
class Claim:
    """A sentence that courses teach, and the experiment that tests it."""

    name: str
    claim: str
    measurement: str
    """What is measured, and when the claim holds."""
    recipes: Sequence[Recipe]
    """The models that it takes."""
    experiment: Callable[[Laboratory], Finding]
