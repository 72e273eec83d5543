"""Word counts of a sample of the selected pairs, from which a tokenizer is trained."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from heed.data.preparation.selection import Selection, read_selected
from heed.data.text import Advance, Part, WordCounts

Result = TypeVar("Result")


@dataclass(frozen=True)
class CountTask:
    """A part whose words are counted.

    Args:
        number: index of the part.
        part: the text.
        swapped: swap source and target.
        selection: folder of the `Selection`.
        threshold: bound of the digests of the sampled pairs.
        file: where the counts are written.
    """

    number: int
    part: Part
    swapped: bool
    selection: Path
    threshold: int
    file: Path


def count_part(task: CountTask, advance: Advance) -> None:
    """Write the word counts of the pairs of a part with digests below the threshold."""
    counts = WordCounts()
    blocks = read_selected(Selection(task.selection), task.part, task.number, advance, swapped=task.swapped)
    for _, block, keys in blocks:
        counts.add(block.take(np.flatnonzero(keys <= np.uint64(task.threshold - 1)).tolist()))
    task.file.write_bytes(pickle.dumps(counts))


def call_with_words(function: Callable[[WordCounts], Result], files: Sequence[Path]) -> Result:
    """Return the result of the function for the sum of the counts in these files."""
    counts = WordCounts()
    for file in files:
        counts.update(pickle.loads(file.read_bytes()))
    return function(counts)
