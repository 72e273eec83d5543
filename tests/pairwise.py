"""Few combinations that try every two options together: most faults need no more than two (Kuhn et al. 2004)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar

T = TypeVar("T")


def pairwise(options: Mapping[str, Sequence[T]], allowed: Callable[[Mapping[str, T]], bool]) -> list[dict[str, T]]:
    """Allowed rows, one value per option, in which every two values meet that meet in any allowed row.

    Greedy: always the row with the most pairs still to be seen. It looks at the whole product of the options, which
    may therefore have some hundred thousand rows and no more.
    """
    bits: dict[tuple[tuple[int, int], ...], int] = {}
    rows: dict[tuple[int, ...], int] = {}  # the values' numbers → the pairs they make, one bit each
    for numbers in product(*(range(len(values)) for values in options.values())):
        if allowed(_row(options, numbers)):
            pairs = combinations(enumerate(numbers), 2)
            rows[numbers] = sum(1 << bits.setdefault(pair, len(bits)) for pair in pairs)
    unseen, chosen = (1 << len(bits)) - 1, []
    while unseen:
        best = max(rows, key=lambda numbers: (rows[numbers] & unseen).bit_count())
        unseen &= ~rows[best]
        chosen.append(_row(options, best))
    return chosen


def _row(options: Mapping[str, Sequence[T]], numbers: Sequence[int]) -> dict[str, T]:
    return {name: values[number] for (name, values), number in zip(options.items(), numbers, strict=True)}
