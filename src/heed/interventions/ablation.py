"""How much a trained model needs each attention head (Michel et al. 2019, §3.2; Voita et al. 2019)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from heed.comparison.challenge import ContrastivePair, prefers_good
from heed.errors import HeedError
from heed.evaluation.significance import (
    MetricFunction,
    Statistics,
    bleu_of_sums,
    bootstrap_interval,
    sentence_statistics,
)
from heed.inference.lines import check_pairs
from heed.inference.searches import SearchOptions
from heed.inference.translator import Translator
from heed.layers.edits import AttentionKind, Edit

MEASURES: Mapping[str, MetricFunction] = {
    "BLEU": bleu_of_sums,
    "challenge accuracy": lambda sums: 100 * sums[..., 0] / sums[..., 1],
}
"""Scores of summed statistics of sentences; the accuracy is in per cent."""


@dataclass(frozen=True)
class HeadImportance:
    """What a model loses without one head. Layers and heads are counted from 0."""

    attention: AttentionKind
    layer: int
    head: int
    lost: Mapping[str, tuple[float, tuple[float, float]]]
    """By measure: the score of the whole model minus the score without the head, and the 95 % bootstrap interval."""


def ablate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    contrasts: Sequence[ContrastivePair] = (),
    **search: Unpack[SearchOptions],
) -> tuple[dict[str, float], list[HeadImportance]]:
    """Switch off one head at a time. Return the scores of the whole model by measure, and what each head adds to them.

    Args:
        references: one for each source.
        contrasts: a challenge set; empty: measure BLEU only.
        search: changes to the search, see `SearchOptions`.

    Raises:
        HeedError: if there is no head or no sentence, or a line is refused.
    """
    check_pairs(sources, references)
    available = translator.model.attention_heads
    heads = [(kind, *place) for kind, sizes in available.items() for place in np.ndindex(sizes)]
    if not (heads and sources):
        raise HeedError("There are no sentences." if heads else "This model has no attention heads to switch off.")

    def statistics(model: Translator) -> dict[str, Statistics]:
        translations = model.without_fallbacks().translate(sources, **search)
        found = sentence_statistics(translations, references, tgt_lang=model.tgt_lang)
        right = [[is_right, 1.0] for is_right in prefers_good(model, contrasts)] if contrasts else []
        return {"BLEU": found["BLEU"], **({"challenge accuracy": np.array(right)} if right else {})}

    whole, importances = statistics(translator), []
    for kind, layer, head in heads:
        without = statistics(translator.with_edits([Edit(kind, "off", layers=[layer], heads=[head])]))
        lost = {measure: _difference(MEASURES[measure], whole[measure], without[measure]) for measure in whole}
        importances.append(HeadImportance(kind, layer, head, lost))
    return {measure: float(MEASURES[measure](of.sum(0))) for measure, of in whole.items()}, importances


def _difference(score: MetricFunction, a: Statistics, b: Statistics) -> tuple[float, tuple[float, float]]:
    """Return the score of a minus that of b, with its interval over sentences."""
    both, width = np.hstack((a, b)), a.shape[1]

    def minus(sums: Statistics) -> Statistics:
        return score(sums[..., :width]) - score(sums[..., width:])

    return float(minus(both.sum(0))), bootstrap_interval(both, minus)
