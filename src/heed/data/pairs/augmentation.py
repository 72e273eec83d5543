"""BPE-dropout and noise: sample the training pairs anew in every epoch, one pool at a time, in a separate process."""

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
import sentencepiece as spm

from heed.data.pairs.pairs import IntArray, Limit, Pairs, flatten, id_lists, pair_lengths, unflatten
from heed.data.pairs.tokenizer import Tokenizer, vocabulary_size
from heed.data.text.noise import Noise, add_noise
from heed.data.text.source import mixed
from heed.data.text.workers import ahead, start_pool
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
        size = vocabulary_size(processor)
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
        # A reserved character has a score too, but no merge leads to it.
        self._merged = {-scores[id_]: id_ for piece, id_ in ids.items() if len(piece) > 1}
        self._characters = {
            id_: tuple(ids[character] for character in piece)
            for piece, id_ in ids.items()
            if ids.keys() >= {*piece}  # an imported vocabulary may lack characters
        }
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


# ---- sampling

GROWTH_PAIRS = 500  # pairs from which the growth of the number of tokens is estimated
Pool = TypeVar("Pool")
TextNoise = tuple[Noise, str, Sequence[int]] | None
"""The noise of a text, the language of its sources and their tags; None: no noise."""


class Sampler:
    """Samples noise and segmentations of pairs in a separate process, as a function of the seed and the pair alone.

    Args:
        tokenizer: a BPE tokenizer, if ``rate`` is not 0.
        rate: probability of dropping a merge, in [0, 1).
        noises: the noise of each text.
        limit: of sampled pairs, with tags, without EOS. A pair whose sample exceeds it keeps its own ids.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, noises: Sequence[TextNoise], limit: Limit) -> None:
        self.tokenizer, self.rate, self.noises, self.limit = tokenizer, rate, noises, limit
        self._process: ProcessPoolExecutor | None = None

    def growth(self, pairs: Pairs) -> float:
        """Return the target tokens of these pairs with BPE-dropout divided by those without it, counting EOS."""
        drawn = within(self.limit, segment(dropouts(self.tokenizer, self.rate), pairs, "growth"), pairs)
        return float((drawn.tgt_lengths + 1).sum() / (pairs.tgt_lengths + 1).sum())

    def draw(self, pools: Iterator[tuple[Pool, str, Pairs, IntArray]]) -> Iterator[tuple[Pool, Pairs]]:
        """Yield each pool with its sampled pairs. The next pool is sampled while this one is trained on.

        ``pools`` have their seed, their pairs, and the index of each pair's text. A killed process raises a HeedError.
        """
        self._process = self._process or start_pool(1)
        draw, submit = partial(_draw, self.tokenizer.models, self.rate, self.noises), self._process.submit
        drawing = ((pool, pairs, submit(draw, seed, pairs, texts)) for pool, seed, pairs, texts in pools)
        try:
            for pool, pairs, drawn in ahead(drawing, 1):
                yield pool, within(self.limit, drawn.result(), pairs)
        except BrokenProcessPool as error:
            raise HeedError(
                "The process that draws noise and random segmentations was killed, probably for lack of memory. "
                "Start a new run from the last checkpoint (ckpt_path=FILE) with a smaller batching.pool, or without "
                "tokenizer.bpe_dropout and data.noise."
            ) from error

    def close(self) -> None:
        """End the process, if there is one. `draw` starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.shutdown(wait=False, cancel_futures=True)


def dropouts(tokenizer: Tokenizer, rate: float) -> Sequence[BPEDropout]:
    """Return the BPE-dropout of source and target, or an empty sequence if the rate is 0."""
    if not rate:
        return ()
    src, tgt = tokenizer.processors
    dropout = BPEDropout(src, rate=rate)
    return dropout, dropout if src is tgt else BPEDropout(tgt, rate=rate)


def segment(dropout: Sequence[BPEDropout], pairs: Pairs, seed: str) -> Pairs:
    """Return the pairs with random segmentations, a function of the seed and the row; unchanged without dropouts."""
    if not dropout:
        return pairs
    src, tgt = dropout
    return replace(
        pairs, src=src(pairs.src, 2 * pairs.rows, seed=seed), tgt=tgt(pairs.tgt, 2 * pairs.rows + 1, seed=seed)
    )


def with_noise(noises: Sequence[TextNoise], tokenizer: Tokenizer, pairs: Pairs, texts: IntArray, seed: str) -> Pairs:
    """Return the pairs after adding the noise of their texts to their sources."""
    sources: list[list[int]] = pairs.src.to_pylist()
    for number, found in enumerate(noises):
        rows = np.flatnonzero(texts == number).tolist()
        if found is None or not rows:
            continue
        noise, lang, tags = found
        before = tokenizer.decode_src([sources[row][len(tags) :] for row in rows])
        after = add_noise(noise, before, pairs.rows[rows].tolist(), seed=seed, lang=lang)
        changed = [place for place in range(len(rows)) if after[place] != before[place]]
        for place, ids in zip(changed, tokenizer.encode_src([after[p] for p in changed], tagged=False), strict=True):
            sources[rows[place]] = [*tags, *ids] if ids else []
    return replace(pairs, src=id_lists(sources))


def within(limit: Limit, drawn: Pairs, pairs: Pairs) -> Pairs:
    """Return the drawn pairs, but the original of each one that exceeds the limit."""
    fits = (pair_lengths(drawn.src_lengths, drawn.tgt_lengths) <= limit).all(axis=1)
    if fits.all():
        return drawn
    originals = replace(pairs, src=pairs.src.cast(drawn.src.type), tgt=pairs.tgt.cast(drawn.tgt.type))
    return Pairs.concatenate([originals, drawn]).take(np.arange(len(pairs)) + len(pairs) * fits)


# ---- the separate process


@cache
def _load(models: tuple[bytes, ...], rate: float) -> tuple[Tokenizer, Sequence[BPEDropout]]:
    """Return the tokenizer and the BPE-dropout of source and target. They are built once."""
    tokenizer = Tokenizer(models, threads=1)
    return tokenizer, dropouts(tokenizer, rate)


def _draw(
    models: tuple[bytes, ...], rate: float, noises: Sequence[TextNoise], seed: str, pairs: Pairs, texts: IntArray
) -> Pairs:
    tokenizer, dropout = _load(models, rate)
    if any(noises):
        pairs = with_noise(noises, tokenizer, pairs, texts, seed)
    return segment(dropout, pairs, seed)
