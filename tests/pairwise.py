"""Pairwise testing: few combinations that contain every pair of option values (Kuhn et al. 2004)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar

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
    bits: dict[tuple[tuple[int, int], ...], int] = {}
    rows: dict[tuple[int, ...], int] = {}  # indices of the values → their pairs as a bit set
    for indices in product(*(range(len(values)) for values in options.values())):
        if allowed(_row(options, indices)):
            pairs = combinations(enumerate(indices), 2)
            rows[indices] = sum(1 << bits.setdefault(pair, len(bits)) for pair in pairs)
    uncovered, chosen = (1 << len(bits)) - 1, []
    while uncovered:
        best = max(rows, key=lambda indices: (rows[indices] & uncovered).bit_count())
        uncovered &= ~rows[best]
        chosen.append(_row(options, best))
    return chosen


def _row(options: Mapping[str, Sequence[T]], indices: Sequence[int]) -> dict[str, T]:
    return {name: values[index] for (name, values), index in zip(options.items(), indices, strict=True)}
