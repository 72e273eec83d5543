"""BPE-dropout: segment the text at random, differently in every epoch."""

import hashlib
import math
import random
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
import sentencepiece as spm

from heed.data.pairs.pairs import IntArray, flatten, unflatten
from heed.data.text.digests import mixed
from heed.errors import HeedError
from heed.symbols import WORD_START

SEGMENTATIONS = 16
"""Random segmentations of a word per epoch. Each occurrence uses one of them, because computing them is slow."""


class BPEDropout:
    """Segment as BPE does, with merges dropped at random (Provilkov et al. 2020, algorithm 1).

    A word starts as a sequence of characters. In each iteration, every possible merge is dropped with probability
    ``rate``; of the remaining ones, the merge that was learned first is applied. The word is finished when no merge
    remains. ``rate=0`` is plain BPE.

    The segmentation of a sentence is a function of a seed and of the sentence's number. In SentencePiece 0.2.3 it
    differs in every process, whatever the seed.

    Args:
        processor: a SentencePiece BPE model.
        rate: probability of dropping a merge, in [0, 1).

    Raises:
        HeedError: if the model is a unigram model.
    """

    def __init__(self, processor: spm.SentencePieceProcessor, *, rate: float) -> None:
        self.rate = rate
        size = processor.get_piece_size()
        special = (processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused)
        ids = {processor.id_to_piece(id_): id_ for id_ in range(size) if not any(kind(id_) for kind in special)}
        scores = {id_: processor.get_score(id_) for id_ in ids.values()}
        if any(score % 1 for score in scores.values()):
            raise HeedError(
                "tokenizer.bpe_dropout drops BPE merges, but this tokenizer is a unigram model: set "
                "tokenizer.bpe_dropout=0."
            )
        self._ranks = {
            (ids[piece[:cut]], ids[piece[cut:]]): -scores[id_]
            for piece, id_ in ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        }
        """Rank of the merge of two pieces: lower ranks were learned earlier. A rank identifies the merged piece."""
        self._merged = {-score: id_ for id_, score in scores.items()}
        self._characters = {id_: tuple(ids[character] for character in piece) for piece, id_ in ids.items()}
        self._is_tag = np.array([processor.is_control(id_) for id_ in range(size)])
        self._starts_word = np.array([processor.id_to_piece(id_).startswith(WORD_START) for id_ in range(size)])
        self._seed = ""
        self._segmentation = cache(self._segment)  # the segmentations computed so far for this seed

    def __call__(self, sentences: pa.ListArray, numbers: IntArray, *, seed: str) -> pa.ListArray:
        """Return random segmentations of sentences: ids without dropout, each identified by its number.

        Tags at the start of a sentence are kept.
        """
        if seed != self._seed:
            self._seed = seed
            self._segmentation.cache_clear()
        # No merge crosses a space, so words are segmented independently.
        flat, offsets = flatten(sentences)
        is_tag = self._is_tag[flat]
        starts_word = self._starts_word[flat] | is_tag | np.append(False, is_tag)[:-1]
        starts_word[offsets[:-1][np.diff(offsets) > 0]] = True
        starts = np.append(np.flatnonzero(starts_word), len(flat))
        first_words = np.searchsorted(starts[:-1], offsets)
        tags = np.diff(np.append(0, np.cumsum(is_tag))[offsets])
        choices = _choices(seed, numbers, np.diff(first_words), tags).tolist()
        ids: list[int] = flat.tolist()
        words = [
            self._segmentation(tuple(ids[start:stop]), choice)
            for (start, stop), choice in zip(pairwise(starts.tolist()), choices, strict=True)
        ]
        ends = np.cumsum([0, *map(len, words)])
        values = np.fromiter((id_ for word in words for id_ in word), np.int32, count=int(ends[-1]))
        return unflatten(values, np.diff(ends[first_words]))

    def _segment(self, word: tuple[int, ...], choice: int) -> list[int]:
        """Return segmentation number ``choice`` of a word."""
        rng = random.Random(f"{self._seed} {word} {choice}")
        # Byte-fallback pieces and the unknown piece stay as they are.
        pieces = [character for id_ in word for character in self._characters.get(id_, (id_,))]
        ranks = [self._ranks.get(pair, math.inf) for pair in pairwise(pieces)]
        while ranks and (best := min(ranks)) < math.inf:
            position = ranks.index(best)
            if rng.random() < self.rate:
                # The best merge is dropped: try the others by rank, until one is kept.
                others = [other for other in range(len(ranks)) if other != position and ranks[other] < math.inf]
                others.sort(key=ranks.__getitem__)
                position = next((other for other in others if rng.random() >= self.rate), -1)
                if position < 0:
                    break
            pieces[position : position + 2] = [self._merged[ranks.pop(position)]]
            for neighbour in range(max(position - 1, 0), min(position + 1, len(ranks))):
                ranks[neighbour] = self._ranks.get((pieces[neighbour], pieces[neighbour + 1]), math.inf)
        return pieces


def _choices(seed: str, numbers: IntArray, words: IntArray, tags: IntArray) -> IntArray:
    """Return a random number below ``SEGMENTATIONS`` for each of the ``words[n]`` words of sentence ``numbers[n]``.

    The first ``tags[n]`` words are tags, which do not change the numbers of the others.
    """
    key = np.frombuffer(hashlib.blake2b(seed.encode(), digest_size=8).digest(), dtype="<u8")
    sentences = mixed(np.broadcast_to(key, len(numbers)), numbers + 1)
    ends = np.cumsum(words)
    positions = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - words + tags, words)
    return (mixed(np.repeat(sentences, words), positions + 1) % np.uint64(SEGMENTATIONS)).astype(np.int64)
