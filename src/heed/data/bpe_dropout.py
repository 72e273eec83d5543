"""BPE-dropout: a random segmentation of the text each time it is encoded."""

import math
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import sentencepiece as spm

from heed.errors import HeedError
from heed.symbols import WORD_START

MAX_SEGMENTATIONS = 16
"""Segmentations computed per word. A more frequent word reuses one of them at random, which saves most of the time."""


class BPEDropout:
    """Segment as BPE does, with merges dropped at random (Provilkov et al. 2020, algorithm 1).

    A word starts as a sequence of characters. In each iteration, every possible merge is dropped with probability
    ``rate``; of the remaining ones, the merge that was learned first is applied. The word is finished when no merge
    remains. ``rate=0`` is plain BPE.

    SentencePiece implements this too, but version 0.2.3 draws differently in every process, whatever the seed. Here the
    result depends on ``seed`` and the previously segmented sentences alone.

    Args:
        processor: a SentencePiece BPE model.
        rate: probability of dropping a merge, in [0, 1).
        seed: seed of the random numbers.

    Raises:
        HeedError: if the model is a unigram model.
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
                "tokenizer.sampling drops BPE merges, but this tokenizer is a unigram model: set tokenizer.sampling=0."
            )
        self._ranks: dict[tuple[int, int], float] = {}
        """Rank of the merge of two pieces: lower ranks were learned earlier. A rank identifies the merged piece."""
        self._merged = {-score: id_ for id_, score in scores.items()}
        self._characters: dict[int, tuple[int, ...]] = {}
        for piece, id_ in ids.items():
            self._characters[id_] = tuple(ids[character] for character in piece)
            for cut in range(1, len(piece)):
                left, right = ids.get(piece[:cut]), ids.get(piece[cut:])
                if left is not None and right is not None:
                    self._ranks[left, right] = -scores[id_]
        self._word_initial = {id_ for piece, id_ in ids.items() if piece.startswith(WORD_START)}
        self._segmentations: dict[tuple[int, ...], list[list[int]]] = {}

    def __call__(self, ids: Sequence[int]) -> list[int]:
        """Return a random segmentation of the text that was encoded as ``ids`` without dropout."""
        segmented: list[int] = []
        for word in self._words(ids):
            segmentations = self._segmentations.setdefault(word, [])
            if len(segmentations) < MAX_SEGMENTATIONS:
                segmentations.append(self._segment(word))
                segmented += segmentations[-1]
            else:
                segmented += segmentations[int(self.rng.random() * MAX_SEGMENTATIONS)]
        return segmented

    def _words(self, ids: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Yield the ids of each word. No merge crosses a space, so words are segmented independently."""
        start = 0
        for position, id_ in enumerate(ids):
            if id_ in self._word_initial and position > start:
                yield tuple(ids[start:position])
                start = position
        if ids:
            yield tuple(ids[start:])

    def _segment(self, word: Sequence[int]) -> list[int]:
        # Byte-fallback pieces and the unknown piece stay as they are.
        pieces = [character for id_ in word for character in self._characters.get(id_, (id_,))]
        ranks = [self._ranks.get(pair, math.inf) for pair in pairwise(pieces)]
        while ranks and (best := min(ranks)) < math.inf:
            position = ranks.index(best)
            if self.rng.random() < self.rate:
                # The best merge is dropped; try the next in rank. Merges behind the first kept one need no draw.
                others = [other for other in range(len(ranks)) if other != position and ranks[other] < math.inf]
                others.sort(key=ranks.__getitem__)
                position = next((other for other in others if self.rng.random() >= self.rate), -1)
                if position < 0:
                    break
            pieces[position : position + 2] = [self._merged[ranks.pop(position)]]
            for neighbour in range(max(position - 1, 0), min(position + 1, len(ranks))):
                ranks[neighbour] = self._ranks.get((pieces[neighbour], pieces[neighbour + 1]), math.inf)
        return pieces
