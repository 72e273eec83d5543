"""Attention from an ambiguous noun such as "bank" to the words that decide its sense."""

from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt
from grammar.lexicon import HOMONYMS, NOUNS

from experiments.antecedent_attention import best_head
from experiments.measures import contrasts
from heed.comparison.challenge import ContrastivePair
from heed.errors import HeedError
from heed.evaluation.words import pool, split_punctuation, word_shares
from heed.inference.translator import Translator

AMBIGUOUS = {NOUNS.bank.en, *(senses[0].noun.en for senses in HOMONYMS)}


@dataclass(frozen=True)
class SenseReport:
    """Encoder self-attention from an ambiguous noun to the words that decide its sense.

    The head is chosen on one half of the scenes; ``layer`` and ``head`` count from 1.
    """

    layer: int
    head: int
    mass: float
    """The head's mean attention to the deciding words, on the other half."""
    share: float
    """Share of the deciding words among the words of the sentence: the mass of uniform attention."""
    sentences: int
    """Number of sentences of the other half."""
    by_head: list[list[float]]
    """Mean mass of every layer and head over all sentences."""


def deciding_words(contrast: ContrastivePair, twin: ContrastivePair) -> list[int]:
    """Return the source positions in which a sentence differs from its twin with the other sense."""
    own, other = split_punctuation(contrast.src), split_punctuation(twin.src)
    changes = SequenceMatcher(None, own, other, autojunk=False).get_opcodes()
    return [position for kind, start, stop, _, _ in changes if kind != "equal" for position in range(start, stop)]


def measure(translator: Translator) -> SenseReport:
    """Measure the attention on the challenge set.

    Raises:
        HeedError: the model's encoder has no self-attention.
    """
    found = contrasts("sense")
    twins = [pair for pair in zip(found[::2], found[1::2], strict=True) if _nouns(pair[0]) and _nouns(pair[1])]
    pairs = [(one, twin) for pair in twins for one, twin in (pair, pair[::-1])]
    masses: list[npt.NDArray[np.float64]] = []
    shares = []
    maps = translator.attend([one.src for one, _ in pairs], [one.good for one, _ in pairs])
    for (one, twin), attended in zip(pairs, maps, strict=True):
        if attended.encoder_self is None:
            raise HeedError("this model's encoder has no self-attention")
        src = split_punctuation(one.src)
        pieces = word_shares(attended.src_pieces, src)
        deciding = deciding_words(one, twin)
        masses.append(pool(attended.encoder_self, pieces, pieces)[:, :, _nouns(one)[0]][:, :, deciding].sum(-1))
        shares.append(len(deciding) / len(src))
    every = np.stack(masses)
    half = len(every) // 4 * 2  # an even number, so that twins are in the same half
    layer, head = best_head(every[:half])
    mass, share = float(every[half:, layer, head].mean()), float(np.mean(shares[half:]))
    return SenseReport(layer + 1, head + 1, mass, share, len(every) - half, every.mean(0).tolist())


def _nouns(contrast: ContrastivePair) -> list[int]:
    """Positions of the ambiguous nouns."""
    return [position for position, word in enumerate(split_punctuation(contrast.src)) if word in AMBIGUOUS]
