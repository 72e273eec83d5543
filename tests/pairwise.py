"""Pairwise testing: few combinations that contain every pair of option values (Kuhn et al. 2004)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def pairwise(options: Mapping[str, Sequence[T]], allowed: Callable[[Mapping[str, T]], bool]) -> list[dict[str, T]]:
    """Choose rows that contain every pair of values that occurs in an allowed row.

    Greedy: each row is the one with the most pairs that are not covered yet. The time is proportional to the product of
    the numbers of values, which should not exceed some hundred thousand.

    Args:
        options: values by option.
        allowed: whether a row may be chosen.

    Returns:
        Rows with one value for each option.
    """
    values = list(options.values())
    indices = [row for row in product(*(range(len(each)) for each in values)) if allowed(_row(options, row))]
    rows = np.array(indices)
    # A number for each pair of values: rows × pairs of options.
    pairs = list(combinations(range(len(values)), 2))
    first = np.cumsum([0, *(len(values[i]) * len(values[j]) for i, j in pairs)])
    codes = np.stack(
        [at + rows[:, i] * len(values[j]) + rows[:, j] for at, (i, j) in zip(first, pairs, strict=False)], 1
    )
    uncovered = np.zeros(first[-1], dtype=bool)
    uncovered[codes] = True
    chosen = []
    while uncovered.any():
        best = int(uncovered[codes].sum(1).argmax())
        uncovered[codes[best]] = False
        chosen.append(_row(options, indices[best]))
    return chosen


def _row(options: Mapping[str, Sequence[T]], indices: Sequence[int]) -> dict[str, T]:
    return {name: values[index] for (name, values), index in zip(options.items(), indices, strict=True)}
