"""What "bank" looks at: the words that tell which bank is meant."""

from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from heed.data.synthetic import ContrastivePair, challenge, split_punctuation
from heed.data.synthetic.lexicon import BANK, HOMONYMS
from heed.errors import HeedError
from heed.evaluation.words import pool, word_shares
from heed.inference.translator import Translator

AMBIGUOUS = {BANK[0].en, *(homonym.readings[0].en for homonym in HOMONYMS)}


@dataclass(frozen=True)
class SenseReport:
    """Encoder self-attention from an ambiguous noun to the words that decide it."""

    layer: int
    head: int
    """Both counted from 1; chosen on one half of the scenes and measured on the other."""
    mass: float
    share: float
    """Of the sentence's words that are deciding ones: what a look without aim would give them."""
    sentences: int
    by_head: list[list[float]]
    """Mean mass of every layer and head over all sentences."""


def deciding_words(contrast: ContrastivePair, twin: ContrastivePair) -> list[int]:
    """Source positions in which a scene told for one reading differs from the same scene told for the other."""
    own, other = split_punctuation(contrast.src), split_punctuation(twin.src)
    changes = SequenceMatcher(None, own, other, autojunk=False).get_opcodes()
    return [place for kind, start, stop, _, _ in changes if kind != "equal" for place in range(start, stop)]


def measure(translator: Translator, *, seed: int, per_tag: int) -> SenseReport:
    """Over the challenge set of the corpus with this seed.

    Raises:
        HeedError: if the model's encoder has no self-attention.
    """
    contrasts = [contrast for contrast in challenge(seed=seed, per_tag=per_tag) if contrast.tag == "sense"]
    scenes = [pair for pair in zip(contrasts[::2], contrasts[1::2], strict=True) if _nouns(pair[0]) and _nouns(pair[1])]
    told = [(one, twin) for scene in scenes for one, twin in (scene, scene[::-1])]
    masses: list[npt.NDArray[np.float64]] = []
    shares = []
    seen = translator.attend([one.src for one, _ in told], [one.good for one, _ in told])
    for (one, twin), attended in zip(told, seen, strict=True):
        if attended.encoder_self is None:
            raise HeedError("this model's encoder has no self-attention")
        src = split_punctuation(one.src)
        pieces = word_shares(attended.src_pieces, src)
        deciding = deciding_words(one, twin)
        masses.append(pool(attended.encoder_self, pieces, pieces)[:, :, _nouns(one)[0]][:, :, deciding].sum(-1))
        shares.append(len(deciding) / len(src))
    every = np.stack(masses)
    half = len(every) // 4 * 2  # twins stay together
    layer, head = (int(i) for i in np.unravel_index(every[:half].mean(0).argmax(), every.shape[1:]))
    return SenseReport(
        layer=layer + 1,
        head=head + 1,
        mass=float(every[half:, layer, head].mean()),
        share=float(np.mean(shares[half:])),
        sentences=len(every) - half,
        by_head=every.mean(0).tolist(),
    )


def _nouns(contrast: ContrastivePair) -> list[int]:
    return [place for place, word in enumerate(split_punctuation(contrast.src)) if word in AMBIGUOUS]
