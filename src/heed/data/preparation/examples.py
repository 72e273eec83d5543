"""Examples of dropped pairs for the report: the first few of each rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from heed.data.cleaning import EXAMPLES_PER_RULE, RULES, DroppedPair, Violations
from heed.data.preparation.scan import Run, read_part
from heed.data.preparation.workers import Workers
from heed.data.text import Advance, Part


@dataclass(frozen=True)
class ReadTask:
    """Pairs to read from a part.

    Args:
        part: the text.
        swapped: swap source and target.
        rows: positions of the pairs in the part, in ascending order.
    """

    part: Part
    swapped: bool
    rows: Sequence[int]


def read_rows(task: ReadTask, advance: Advance) -> list[tuple[str, str]]:
    """Return some pairs of a part."""
    found: list[tuple[str, str]] = []
    first = 0
    for block in read_part(task.part, advance, swapped=task.swapped):
        while len(found) < len(task.rows) and task.rows[len(found)] < first + len(block):
            row = task.rows[len(found)] - first
            found.append((block.src[row], block.tgt[row]))
        if len(found) == len(task.rows):
            break
        first += len(block)
    return found


def find_examples(
    runs: Sequence[Run],
    violated: Callable[[Run], Violations],
    dropped: Mapping[str, int],
    parts: Sequence[Part],
    workers: Workers,
    *,
    swapped: bool,
) -> dict[str, list[dict[str, Any]]]:
    """Return the first dropped pairs of each rule, as `DroppedPair`s.

    Args:
        runs: of the text.
        violated: returns the violated rules of a run.
        dropped: number of pairs that each of these rules drops.
        parts: the text.
        swapped: swap source and target.
    """
    wanted: list[dict[int, str]] = [{} for _ in parts]  # the rule of each pair to read, by its position in the text
    missing = {rule: min(count, EXAMPLES_PER_RULE) for rule, count in dropped.items()}
    for run in runs:
        if not any(missing.values()):
            break
        rules = violated(run)
        for rule, count in missing.items():
            rows = np.flatnonzero(rules == RULES.index(rule))[:count]
            missing[rule] -= len(rows)
            wanted[run.part].update(dict.fromkeys((run.first + rows).tolist(), rule))
    first_pairs = {run.part: run.first for run in reversed(runs)}
    numbers = [number for number, positions in enumerate(wanted) if positions]
    tasks = [
        ReadTask(parts[number], swapped, [position - first_pairs[number] for position in sorted(wanted[number])])
        for number in numbers
    ]
    size = sum(task.part.size for task in tasks)
    pairs = workers.map(read_rows, tasks, description="Reading examples of dropped pairs", total=size, unit="B")
    examples: dict[str, list[dict[str, Any]]] = {rule: [] for rule in RULES}
    for number, texts in zip(numbers, pairs, strict=True):
        for position, (src, tgt) in zip(sorted(wanted[number]), texts, strict=True):
            examples[wanted[number][position]].append(asdict(DroppedPair(position + 1, src, tgt)))
    return examples
