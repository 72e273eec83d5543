"""Fallbacks for lines that a model would lose: numbers, unknown white space, empty translations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import Hypothesis, NBest

SearchIds = Callable[[Sequence[list[int]]], list[NBest]]
"""Returns the hypotheses of each source, best first. Ids have no EOS. A source without ids has one empty hypothesis."""


@dataclass(frozen=True)
class Fallbacks:
    """What a translator does with lines that its model would lose.

    - A line without letters (``str.isalpha``), such as a number or an emoji, is its own translation with the score 0,
      unless no source piece of the model has a letter.
    - White space without a piece, such as a tab, is read as a space.
    - Empty hypotheses rank after all others.

    If not ``enabled``, it does none of this. A line of white space never has ids.
    """

    tokenizer: Tokenizer
    enabled: bool = True

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of source lines, without EOS."""
        known = self.tokenizer.with_known_spaces if self.enabled else str
        return self.tokenizer.encode_src([known(line) if line.strip() else "" for line in lines])

    def is_copied(self, line: str) -> bool:
        """Return whether a line is its own translation."""
        return self.enabled and self.tokenizer.reads_letters and bool(line.strip()) and not any(map(str.isalpha, line))

    def search(
        self, lines: Sequence[str], src_ids: Sequence[list[int]], *, search: SearchIds, search_all: SearchIds
    ) -> tuple[list[NBest], set[int]]:
        """Return the hypotheses of each line, best first, and the rows for which the search prefers an empty one.

        Args:
            src_ids: the result of `encode`.
            search: the search of the translator.
            search_all: the same search, with all hypotheses that it finds. It runs if the best hypothesis is empty.
        """
        copied = {row: line for row, line in enumerate(lines) if self.is_copied(line)}
        found = search([[] if row in copied else ids for row, ids in enumerate(src_ids)])
        for row, ids in zip(copied, self.tokenizer.encode_tgt(list(copied.values())), strict=True):
            found[row] = [replace(found[row][0], tokens=ids)]
        searched = (row for row, ids in enumerate(src_ids) if ids and row not in copied)
        empty = {row for row in searched if self._is_empty(found[row][0])}
        if empty and self.enabled:
            for row, n_best in zip(empty, search_all([src_ids[row] for row in empty]), strict=True):
                found[row] = sorted(n_best, key=self._is_empty)[: len(found[row])]
        return found, empty

    def _is_empty(self, hypothesis: Hypothesis) -> bool:
        return not self.tokenizer.decode_tgt([hypothesis.tokens])[0].strip()
