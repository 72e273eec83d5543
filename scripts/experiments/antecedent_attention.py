"""Attention from a pronoun to its antecedent, measured on validation sentences and on the challenge set."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.antecedent_statistics import AntecedentReport, attention_difference, report
from experiments.challenge_set import contrasts
from heed.errors import HeedError
from heed.evaluation.words import pool, word_shares
from heed.inference.translator import Translator
from heed.synthetic import split_punctuation

Part = Literal["encoder", "decoder"]
"""The attention to measure: the encoder's self-attention from "it", or the decoder's cross-attention when it writes er,
sie or es."""


@dataclass(frozen=True)
class PronounCase:
    """A sentence with "it" and its translation.

    Attributes:
        antecedent: source positions of the "pronoun", and of its "right" and "wrong" antecedent.
    """

    src: str
    tgt: str
    antecedent: Mapping[str, int]


@dataclass(frozen=True)
class PronounAttention:
    """Attention of the pronoun of a case.

    Attributes:
        weights: over the source words, "L H S".
        difference: right minus wrong antecedent, "L H".
    """

    case: PronounCase
    weights: npt.NDArray[np.float64]
    difference: npt.NDArray[np.float64]


def validation_cases(run: Path) -> list[PronounCase]:
    """Return the cases of a run's validation set."""
    folder = run / "translations"
    columns = [
        (folder / f"valid.{name}").read_text(encoding="utf-8").splitlines() for name in ("src", "ref", "meta.jsonl")
    ]
    return [
        PronounCase(src, tgt, antecedent)
        for src, tgt, meta in zip(*columns, strict=True)
        if (antecedent := json.loads(meta)["antecedent"]) and _is_it(src, antecedent)
    ]


def challenge_cases(seed: int) -> list[PronounCase]:
    """Return the cases of the challenge set, in pairs of twins. ``seed``: that of the corpus."""
    return [
        PronounCase(contrast.src, contrast.good, contrast.antecedent)
        for contrast in contrasts(seed=seed)
        if contrast.antecedent and _is_it(contrast.src, contrast.antecedent)
    ]


def _is_it(src: str, antecedent: Mapping[str, int]) -> bool:
    return split_punctuation(src)[antecedent["pronoun"]].lower() == "it"


def pronoun_attention(translator: Translator, cases: Sequence[PronounCase], part: Part) -> list[PronounAttention]:
    """Return the attention of the pronoun of each case, with the reference as the target.

    Raises:
        HeedError: the model has no such attention.
    """
    found = []
    for case, attended in zip(cases, translator.attend([c.src for c in cases], [c.tgt for c in cases]), strict=True):
        weights = attended.encoder_self if part == "encoder" else attended.cross
        if weights is None:
            raise HeedError(f"this model's {part} has no attention to the source")
        src_words, tgt_words = split_punctuation(case.src), split_punctuation(case.tgt)
        src = word_shares(attended.src_pieces, src_words)
        tgt = src if part == "encoder" else word_shares(attended.tgt_pieces, tgt_words)
        maps = pool(weights, tgt, src)
        row = case.antecedent["pronoun"] if part == "encoder" else german_pronoun(tgt_words)
        difference = attention_difference(maps, {**case.antecedent, "pronoun": row})
        found.append(PronounAttention(case, maps[:, :, row], difference))
    return found


def german_pronoun(tgt_words: Sequence[str]) -> int:
    """Return the position of the pronoun that translates "it": the last er, sie or es."""
    return max(position for position, word in enumerate(tgt_words) if word.lower() in ("er", "sie", "es"))


def measure(
    run: Path, translator: Translator, part: Part, *, seed: int
) -> tuple[AntecedentReport, list[PronounAttention]]:
    """Choose a head on the run's validation sentences and measure it on the challenge set (see `report`).

    Args:
        seed: that of the run's corpus.

    Returns:
        The report, and the attention of every challenge case.
    """
    valid, challenge = (
        pronoun_attention(translator, cases, part) for cases in (validation_cases(run), challenge_cases(seed))
    )
    differences = (np.stack([one.difference for one in found]) for found in (valid, challenge))
    return report(*differences), challenge


def median_twins(found: Sequence[PronounAttention], head: tuple[int, int]) -> tuple[PronounAttention, PronounAttention]:
    """Return the two versions of the scene with the median difference of a (layer, head)."""
    twins = [(found[i], found[i + 1]) for i in range(0, len(found) - 1, 2)]
    twins.sort(key=lambda pair: float(pair[0].difference[head] + pair[1].difference[head]))
    return twins[len(twins) // 2]
