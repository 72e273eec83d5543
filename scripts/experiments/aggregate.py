"""Mean and standard deviation of a measurement over seeds."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def mean_and_sd(values: Iterable[float]) -> dict[str, Any]:
    """Return ``values``, their ``mean`` and their sample standard deviation ``sd`` (None for a single value)."""
    array = np.array(list(values), dtype=float)
    return {
        "mean": float(array.mean()),
        "sd": float(array.std(ddof=1)) if len(array) > 1 else None,
        "values": array.tolist(),
    }


def format_mean(aggregate: Mapping[str, Any], digits: int = 1) -> str:
    """Format the result of `mean_and_sd`: "93.1 ± 0.4"."""
    sd = "" if aggregate["sd"] is None else f" ± {aggregate['sd']:.{digits}f}"
    return f"{aggregate['mean']:.{digits}f}{sd}"
