"""Prepare a training text in the cache: its clean pairs and their token ids."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from heed.cache import build_once, cache_key
from heed.characters import normalized
from heed.compat import usable_cores
from heed.data.text.clean_text import CleanText, write_clean_text
from heed.data.text.cleaning import RULES, Rows, Rules
from heed.data.text.digests import pair_digests
from heed.data.text.text import Block, Text
from heed.data.text.workers import Workers
from heed.directions import Direction
from heed.errors import HeedError
from heed.options import AtLeast1, Positive, validated
from heed.progress import progress_bar

Result = TypeVar("Result")

SMALL = 2**25
"""Largest text, in bytes, that is prepared without worker processes: starting them would take longer."""


@validated("data.preparation.")
@dataclass(kw_only=True)
class Preparation:
    """How training text is prepared. conf/data/preparation/default.yaml explains the options."""

    num_proc: AtLeast1 | Literal["auto"]
    wait_minutes: Positive

    def workers_for(self, size: int) -> int:
        """Return the number of worker processes for a text of ``size`` bytes; 0 for a small text."""
        processes = usable_cores() if self.num_proc == "auto" else self.num_proc
        return 0 if size <= SMALL else processes


@dataclass(frozen=True)
class PreparedText:
    """A training text whose pairs are cleaned and selected (`prepare`)."""

    text: Text
    directions: tuple[Direction, ...]  # the text's direction, and a second one if it is also used swapped
    clean: CleanText  # its selected pairs
    rules: Rules  # the rules that selected them
    preparation: Preparation
    cache_dir: Path

    @classmethod
    def prepare(
        cls,
        text: Text,
        rules: Rules,
        *,
        directions: tuple[Direction, ...],
        preparation: Preparation,
        cache_dir: Path,
        heavier: "Sequence[PreparedText]" = (),
    ) -> "PreparedText":
        """Read and clean a text, and select its pairs, unless they are in the cache.

        A pair that occurs in a ``heavier`` text of the mixture is dropped: one with a larger weight, or an equal weight
        and an earlier place. Raise a HeedError if the text is invalid, or changes while it is read.
        """
        identity = [source.identity() for source in text.sources]
        leaked = [digests.tobytes() for digests in rules.held_out]
        others = [other.clean for other in heavier if rules.cleaning.drop_duplicates]
        key = cache_key(identity, replace(rules, held_out=()), leaked, [other.folder.name for other in others])

        def build(folder: Path) -> None:
            try:
                with Workers(preparation.workers_for(sum(source.size for source in text.sources))) as workers:
                    write_clean_text(folder, text.sources, rules, workers, others)
            finally:
                for source, before in zip(text.sources, identity, strict=True):
                    if source.identity() != before:
                        raise HeedError(f"{source.name} changed while it was read: start again when it is complete.")

        folder = build_once(cache_dir / "text" / key, build, wait_minutes=preparation.wait_minutes)
        return cls(text, directions, CleanText(folder), rules, preparation, cache_dir)

    def __len__(self) -> int:
        return self.clean.report.kept

    @cached_property
    def _kept(self) -> Rows:
        """The places of the selected pairs in the text, in ascending order."""
        return np.sort(self.clean.lines())

    def dropped(self, block: Block, first: int) -> dict[int, str]:
        """Return the rule that drops each dropped pair of a block after ``first`` pairs, by the pair's place in it.

        The sides of the block are swapped if the rules swap them.
        """
        compared = block.map(normalized)
        violated = self.rules.violations(compared)
        start, stop = np.searchsorted(self._kept, [first, first + len(block)])
        kept = np.isin(np.arange(first, first + len(block)), self._kept[start:stop])
        is_copy = self.rules.cleaning.drop_duplicates & (pair_digests(compared) < self.clean.bound)
        violated[(violated == len(RULES)) & ~kept] = RULES.index("over max_train")
        violated[(violated == RULES.index("over max_train")) & is_copy] = RULES.index("duplicate")
        return {row: RULES[rule] for row, rule in enumerate(violated.tolist()) if rule < len(RULES)}

    def map_blocks(self, function: Callable[[Block], Result], at_most: int, workers: Workers) -> Iterator[Result]:
        """Yield the results of a function of each block, of a sample of about ``at_most`` pairs."""
        bound = self.clean.bound * min(at_most, len(self)) // len(self)
        tasks = [partial(_apply, function, self.clean.folder, number, bound) for number in self.clean.blocks]
        with progress_bar("Counting words", total=len(tasks), unit="blocks") as bar:
            for result in workers.map(tasks):
                yield result
                bar.update()


def _apply(function: Callable[[Block], Result], text: Path, number: int, bound: int) -> Result:
    """Apply a function to the pairs of a block with keys below ``bound``."""
    return function(CleanText(text).read(number, high=bound)[0])
