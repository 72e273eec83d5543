"""Attention from a pronoun to its right antecedent minus attention to the wrong one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from experiments.measures import contrasts
from experiments.runner import TrainedModel
from heed.comparison.challenge import ContrastivePair
from heed.errors import HeedError
from heed.evaluation.significance import bootstrap_interval
from heed.evaluation.words import AttentionMap, pool, split_punctuation, word_shares
from heed.inference.translator import Translator

Floats = npt.NDArray[np.float64]
Part = Literal["encoder", "decoder"]
"""The attention to measure: the encoder's self-attention from "it", or the decoder's cross-attention when it writes er,
sie or es."""
TITLES: Mapping[Part, str] = {"encoder": "from “it”", "decoder": "when writing er, sie or es"}


@dataclass(frozen=True)
class PronounCase:
    """A sentence with "it" and its translation."""

    src: str
    tgt: str
    antecedent: Mapping[str, int]
    """Source positions of the "pronoun", and of its "right" and "wrong" antecedent."""


@dataclass(frozen=True)
class PronounAttention:
    """Attention of the pronoun of a case."""

    case: PronounCase
    weights: Floats
    """Over the source words, "L H S"."""
    difference: Floats
    """Right minus wrong antecedent, "L H"."""


@dataclass(frozen=True)
class Distribution:
    """Distribution of one head's differences over sentences."""

    number: int
    """Number of sentences."""
    mean: float
    interval: tuple[float, float]
    """95 % interval of the mean, by percentile bootstrap over sentences."""
    quantiles: tuple[float, ...]
    """Minimum, lower quartile, median, upper quartile, maximum."""
    positive: float
    """Share of sentences in which the right antecedent gets more attention."""


@dataclass(frozen=True)
class AntecedentReport:
    """Differences of the head that is best on validation sentences; ``layer`` and ``head`` count from 1."""

    layer: int
    head: int
    valid: Distribution
    """Over the sentences on which the head was chosen, and so biased upwards."""
    challenge: Distribution
    by_head: list[list[float]]
    """Mean difference of every layer and head on the challenge set."""


def validation_cases(run: TrainedModel) -> list[PronounCase]:
    """Return the cases of a run's validation set."""
    columns = run.lines("valid", "src"), run.lines("valid", "ref"), run.meta("valid")
    cases = (PronounCase(src, tgt, meta["antecedent"]) for src, tgt, meta in zip(*columns, strict=True))
    return list(filter(has_it, cases))


def challenge_cases() -> list[PronounCase]:
    """Return the cases of the challenge set, in pairs of twins."""
    cases = (PronounCase(one.src, one.good, one.antecedent or {}) for one in contrasts())
    return list(filter(has_it, cases))


def has_it(case: PronounCase | ContrastivePair) -> bool:
    """Return whether the antecedent of an "it" is annotated."""
    words, antecedent = split_punctuation(case.src), case.antecedent
    return bool(antecedent and words[antecedent["pronoun"]].lower() == "it")


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
        row = case.antecedent["pronoun"] if part == "encoder" else german_pronoun(tgt_words)
        maps = pool(weights, tgt, src)
        found.append(PronounAttention(case, maps[:, :, row], attention_difference(maps, row, case.antecedent)))
    return found


def attention_difference(weights: AttentionMap, row: int, antecedent: Mapping[str, int]) -> Floats:
    """Attention of a row of "L H T S" to the right antecedent, minus that to the wrong one: "L H", from −1 to 1."""
    of_row = np.asarray(weights, dtype=np.float64)[:, :, row]
    difference: Floats = of_row[..., antecedent["right"]] - of_row[..., antecedent["wrong"]]
    return difference


def german_pronoun(tgt_words: Sequence[str]) -> int:
    """Return the position of the pronoun that translates "it": the last er, sie or es."""
    return max(position for position, word in enumerate(tgt_words) if word.lower() in ("er", "sie", "es"))


def best_head(values: Floats) -> tuple[int, int]:
    """Return the (layer, head), from 0, with the greatest mean over the sentences of "N L H"."""
    layer, head = np.unravel_index(values.mean(0).argmax(), values.shape[1:])
    return int(layer), int(head)


def distribution(differences: Sequence[float] | Floats, *, resamples: int = 1000) -> Distribution:
    """Describe the differences of one head, "N"."""
    values = np.asarray(differences, dtype=np.float64)
    number = len(values)
    interval = bootstrap_interval(values, lambda sums: sums / number, resamples=resamples)
    quantiles = tuple(np.quantile(values, (0.0, 0.25, 0.5, 0.75, 1.0)).tolist())
    return Distribution(number, float(values.mean()), interval, quantiles, float((values > 0).mean()))


def report(valid: Floats, challenge: Floats) -> AntecedentReport:
    """Choose the head on validation sentences, "N L H", and measure it on the challenge set, "M L H".

    The challenge set has each scene twice, with the right and the wrong antecedent exchanged. A head that always
    prefers the first noun, the last noun or the subject has a mean of 0.
    """
    layer, head = best_head(valid)
    on_valid, on_challenge = (distribution(values[:, layer, head]) for values in (valid, challenge))
    return AntecedentReport(layer + 1, head + 1, on_valid, on_challenge, challenge.mean(0).tolist())


def measure(run: TrainedModel, part: Part) -> tuple[AntecedentReport, list[PronounAttention]]:
    """Choose a head on the run's validation sentences and measure it on the challenge set (see `report`).

    Returns:
        The report, and the attention of every challenge case.
    """
    valid, challenge = (
        pronoun_attention(run.translator, cases, part) for cases in (validation_cases(run), challenge_cases())
    )
    differences = (np.stack([one.difference for one in found]) for found in (valid, challenge))
    return report(*differences), challenge


def median_twins(found: Sequence[PronounAttention], head: tuple[int, int]) -> tuple[PronounAttention, PronounAttention]:
    """Return the two versions of the scene with the median difference of a (layer, head)."""
    twins = [(found[i], found[i + 1]) for i in range(0, len(found) - 1, 2)]
    twins.sort(key=lambda pair: float(pair[0].difference[head] + pair[1].difference[head]))
    return twins[len(twins) // 2]


def draw(report: AntecedentReport, found: Sequence[PronounAttention], title: str) -> Figure:
    """Draw the distribution over the challenge set, and the attention in the two versions of the median scene."""
    head = report.layer - 1, report.head - 1
    figure = Figure((8.4, 6), layout="constrained")
    top, *scenes = figure.subplots(3, height_ratios=(6, 1, 1))
    top.hist([float(one.difference[head]) for one in found], bins=40, range=(-1, 1))
    top.axvline(0, color="0.5")
    top.axvline(report.challenge.mean, color="C1", linestyle="--", label=f"mean {report.challenge.mean:+.2f}")
    top.legend(frameon=False)
    top.set_title(f"{title}: layer {report.layer}, head {report.head}")
    top.set_xlabel(f"attention to the right − to the wrong antecedent, in {len(found)} challenge sentences")
    for axes, one in zip(scenes, median_twins(found, head), strict=True):
        roles = {position: f" ({role})" for role, position in one.case.antecedent.items()}
        words = [word + roles.get(position, "") for position, word in enumerate(split_punctuation(one.case.src))]
        axes.pcolormesh(np.sqrt(one.weights[head])[None], cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(np.arange(len(words)) + 0.5, words, rotation=60, ha="right")
        axes.set_yticks([])
        axes.grid(visible=False)
    return figure
