"""A training text: its pairs in one direction, and how they are used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from heed.cache import build_once, cache_key
from heed.data.text.clean_pairs import CleanPairs, Preparation, write_clean_pairs
from heed.data.text.cleaning import Rules
from heed.data.text.noise import Noise
from heed.data.text.source import Block, Source
from heed.data.text.workers import Workers
from heed.directions import Direction
from heed.errors import HeedError


@dataclass(frozen=True)
class Text:
    """A training text in one direction. Two directions are two texts with the same clean pairs."""

    sources: Sequence[Source]
    direction: Direction
    name: str = ""  # in a mixture
    weight: float | None = None  # share of the sentences, relative to the other texts; None: determined by its size
    from_step: int = 0  # first optimizer step that may use it
    tag: str | None = None  # first token of its source sentences, such as "<crawl>" (Caswell et al. 2019)
    noise: Noise | None = None  # in its source sentences
    min_score: float | None = None  # pairs with a lower score are dropped
    selected: CleanPairs | None = None  # None before cleaning
    swapped: bool = False  # whether source and target of the clean pairs are swapped

    @property
    def clean(self) -> CleanPairs:
        """The pairs that cleaning keeps, in the direction that was cleaned."""
        assert self.selected is not None, "the text is not cleaned"
        return self.selected

    def reversed(self) -> "Text":
        """Return the text with source and target swapped. It has the same clean pairs."""
        return replace(self, direction=self.direction.reversed(), swapped=not self.swapped)

    def read(self, number: int) -> Block:
        """Return the clean pairs of a block."""
        block, _ = self.clean.read(number)
        return block.swapped() if self.swapped else block

    def cleaned(
        self, rules: Rules, *, preparation: Preparation, cache_dir: Path, heavier: Sequence["Text"] = ()
    ) -> "Text":
        """Return the text with its clean pairs, which are read and selected unless they are in the cache.

        A pair that occurs in a ``heavier`` text of the mixture is dropped: one with a larger weight, or an equal weight
        and an earlier place. Raise a HeedError if the text is invalid, or changes while it is read.
        """
        identity = [source.identity() for source in self.sources]
        leaked = [digests.tobytes() for digests in rules.held_out]
        others = [other.clean for other in heavier if rules.cleaning.drop_duplicates]
        key = cache_key(identity, replace(rules, held_out=()), leaked, [other.folder.name for other in others])

        def build(folder: Path) -> None:
            try:
                with Workers(preparation.workers_for(sum(source.size for source in self.sources))) as workers:
                    write_clean_pairs(folder, self.sources, rules, workers, others)
            finally:
                for source, before in zip(self.sources, identity, strict=True):
                    if source.identity() != before:
                        raise HeedError(f"{source.name} changed while it was read: start again when it is complete.")

        folder = build_once(cache_dir / "text" / key, build, wait_minutes=preparation.wait_minutes)
        return replace(self, selected=CleanPairs(folder, rules, preparation))
