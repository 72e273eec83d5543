"""BPE-dropout: another segmentation of the same text at every turn."""

import math
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import sentencepiece as spm

from heed.errors import HeedError

DRAWS = 16
"""Of one word, at most: a frequent one gets one of these again, which is far faster and hardly less random."""

SPACE = "▁"


class BPEDropout:
    """Segments as the BPE model does, but for merges left out at random (Provilkov et al. 2020, algorithm 1).

    A word starts as characters. Again and again each possible merge is left out with probability ``rate``, and of the
    others the one that was learned first is made, until none is left. With ``rate=0`` that is BPE itself.

    SentencePiece can do this too, but its draws differ from process to process whatever the seed (0.2.3). Here they
    depend on ``seed`` and on what was segmented before, and on nothing else.
    """

    def __init__(self, processor: spm.SentencePieceProcessor, *, rate: float, seed: str) -> None:
        self.rate = rate
        self.rng = random.Random(seed)
        size = processor.get_piece_size()
        special = (processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused)
        ids = {processor.id_to_piece(id_): id_ for id_ in range(size) if not any(kind(id_) for kind in special)}
        scores = {id_: processor.get_score(id_) for id_ in ids.values()}
        if any(score % 1 for score in scores.values()):
            raise HeedError(
                "tokenizer.sampling leaves out merges of BPE, and this tokenizer is a unigram model: set it to 0."
            )
        self._ranks: dict[tuple[int, int], float] = {}
        """When the merge of two pieces was learned: the lowest first. Each rank belongs to one merged piece."""
        self._merged = {-score: id_ for id_, score in scores.items()}
        self._characters: dict[int, tuple[int, ...]] = {}
        for piece, id_ in ids.items():
            self._characters[id_] = tuple(ids[character] for character in piece)
            for cut in range(1, len(piece)):
                pair = ids.get(piece[:cut]), ids.get(piece[cut:])
                if pair[0] is not None and pair[1] is not None:
                    self._ranks[pair[0], pair[1]] = -scores[id_]
        self._opens_word = {id_ for piece, id_ in ids.items() if piece.startswith(SPACE)}
        self._drawn: dict[tuple[int, ...], list[list[int]]] = {}

    def __call__(self, ids: Sequence[int]) -> list[int]:
        """Another segmentation of what these ids, as the model encodes it, spell."""
        segmented: list[int] = []
        for word in self._words(ids):
            drawn = self._drawn.setdefault(word, [])
            if len(drawn) < DRAWS:
                drawn.append(self._segment(word))
                segmented += drawn[-1]
            else:
                segmented += drawn[int(self.rng.random() * DRAWS)]
        return segmented

    def _words(self, ids: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """No merge crosses a space."""
        start = 0
        for position, id_ in enumerate(ids):
            if id_ in self._opens_word and position > start:
                yield tuple(ids[start:position])
                start = position
        if ids:
            yield tuple(ids[start:])

    def _segment(self, word: Sequence[int]) -> list[int]:
        # Bytes of byte fallback, and what is unknown, are spelled as they are.
        pieces = [character for id_ in word for character in self._characters.get(id_, (id_,))]
        ranks = [self._ranks.get(pair, math.inf) for pair in pairwise(pieces)]
        while ranks and (best := min(ranks)) < math.inf:
            position = ranks.index(best)
            if self.rng.random() < self.rate:
                # Left out, as may be what comes next. Coins for what ranks behind the one that is made change nothing.
                others = [other for other in range(len(ranks)) if other != position and ranks[other] < math.inf]
                others.sort(key=ranks.__getitem__)
                position = next((other for other in others if self.rng.random() >= self.rate), -1)
                if position < 0:
                    break
            pieces[position : position + 2] = [self._merged[ranks.pop(position)]]
            for beside in range(max(position - 1, 0), min(position + 1, len(ranks))):
                ranks[beside] = self._ranks.get((pieces[beside], pieces[beside + 1]), math.inf)
        return pieces
