"""Significance tests between all pairs of sides, and the verdict on each pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from heed.comparison.runs import Side, TestSet
from heed.evaluation.significance import (
    TESTED,
    Difference,
    Sample,
    Statistics,
    approximate_randomization,
    difference,
    holm,
    sentence_statistics,
)
from heed.progress import track

SideStatistics = Mapping[str, Sequence[Statistics]]  # by metric, the statistics "N K" of each run

ALPHA = 0.05  # a difference with a smaller p-value is significant
MIN_COMPARED_BLEU = 2.0
"""A system with less BLEU does not translate: the references of other sentences get about as much (2.6 on the built-in
corpus)."""
MIN_STEPS = 1000
"""A run of fewer steps that does not translate is not trained enough; after a longer one something else is wrong."""


@dataclass(frozen=True)
class PairReport:
    """Two sides, the one with more BLEU first."""

    better: str
    worse: str
    identical: bool  # all translations are equal, so nothing was tested
    differences: dict[str, Difference]
    p: dict[str, float]
    """The p-value of the verdict: by approximate randomization for two runs, by the bootstrap for groups of runs, both
    adjusted for the number of pairs. Empty if nothing was tested: identical sides, or none that translates."""
    verdict: str


def side_statistics(side: Side, test_set: TestSet) -> SideStatistics:
    """Return the sufficient statistics of every run of a side."""
    runs = [
        sentence_statistics(run.translations, test_set.references, tgt_lang=test_set.direction.tgt_lang)
        for run in track(side.runs, f"Counting n-grams of {side.name}", unit="runs")
    ]
    return {metric: [run[metric] for run in runs] for metric in TESTED}


def compare_pairs(
    sides: Sequence[Side], statistics: Sequence[SideStatistics], samples: Sequence[Mapping[str, Sample]]
) -> list[PairReport]:
    """Test all pairs of sides, given the statistics of each side and its resampled scores by metric.

    Pairs that are identical or do not translate are not tested. p-values are adjusted by Holm's method over the others.
    """
    bleu = [float(sample["BLEU"].scores.mean()) for sample in samples]
    order = [(j, i) if bleu[i] < bleu[j] else (i, j) for i, j in combinations(range(len(sides)), 2)]
    reports = []
    for i, j in track(order, "Testing differences", unit="pairs of systems"):
        better, worse = sides[i], sides[j]
        identical = sorted(run.translations for run in better.runs) == sorted(run.translations for run in worse.runs)
        differences = {name: difference(samples[i][name], samples[j][name]) for name in TESTED}
        p = {}
        if bleu[i] >= MIN_COMPARED_BLEU and not identical:
            p = {name: found.p for name, found in differences.items()}
            if len(better.runs) == len(worse.runs) == 1:
                p = {
                    name: approximate_randomization(statistics[i][name][0], statistics[j][name][0], metric)
                    for name, metric in TESTED.items()
                }
        reports.append(PairReport(better.name, worse.name, identical, differences, p, verdict=""))
    tested = [report for report in reports if report.p]
    for name in TESTED:
        for report, adjusted in zip(tested, holm([report.p[name] for report in tested]), strict=True):
            report.p[name] = adjusted
    return [
        replace(report, verdict=_verdict(report, sides[i], sides[j], bleu=(bleu[i], bleu[j]), pairs=len(tested)))
        for report, (i, j) in zip(reports, order, strict=True)
    ]


def verdicts(
    reports: Sequence[PairReport], sides: Sequence[Side], samples: Sequence[Mapping[str, Sample]]
) -> list[str]:
    """Return the verdict on each pair; one sentence replaces those on three or more that do not translate."""
    bleu = [float(sample["BLEU"].scores.mean()) for sample in samples]
    failed = {
        side.name: (score, side.mean("steps"))
        for side, score in zip(sides, bleu, strict=True)
        if score < MIN_COMPARED_BLEU
    }
    if len(failed) < 3:
        return [report.verdict for report in reports]
    scores, steps = map(sorted, zip(*failed.values(), strict=True))
    count = f"None of the {len(sides)}" if len(failed) == len(sides) else f"{len(failed)} of the {len(sides)}"
    fault = f"not trained enough ({_range(steps, ',.0f')} steps)" if steps[-1] < MIN_STEPS else "broken"
    summary = (
        f"{count} systems {'translates' if len(failed) == len(sides) else 'do not translate'} "
        f"({_range(scores, '.1f')} BLEU, below {MIN_COMPARED_BLEU:g}): they are {fault}."
    )
    if len(failed) < len(sides):
        summary += f" They are {', '.join(failed)}."
    return [summary, *(each.verdict for each in reports if not {each.better, each.worse} <= failed.keys())]


def _range(values: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(format(value, form) for value in (values[0], values[-1])))


def _verdict(pair: PairReport, better: Side, worse: Side, *, bleu: tuple[float, float], pairs: int) -> str:
    """Return the verdict: first of all whether any system translates, then which one is better.

    ``bleu`` is that of the two sides, averaged over seeds; the p-values are adjusted for this number of ``pairs``.
    """
    if pair.identical:
        comparison = f"{better.name} and {worse.name} are identical: every translation is the same."
    elif pair.p:
        comparison = _comparison(pair, f"{_seeds(better, worse)}; {_parameters(better, worse)}", pairs=pairs)
    else:
        comparison = "Their difference does not say which model is better."
    if bleu[0] >= MIN_COMPARED_BLEU:
        return comparison
    scores = " and ".join(f"{score:.1f}" for score in bleu)
    steps = [side.mean("steps") for side in (better, worse)]
    fault = f"not trained enough ({steps[0]:,.0f} and {steps[1]:,.0f} steps)" if max(steps) < MIN_STEPS else "broken"
    return (
        f"Both models are {fault}: neither {better.name} nor {worse.name} translates ({scores} BLEU, both below "
        f"{MIN_COMPARED_BLEU:g}). {comparison}"
    )


def _comparison(pair: PairReport, conditions: str, *, pairs: int) -> str:
    """Return which side is better, with the numbers that say so."""
    better, worse, p, chrf = pair.better, pair.worse, pair.p, pair.differences["chrF"]
    numbers = f"{_format_difference(pair.differences['BLEU'], 'BLEU')}, {_format_p(p['BLEU'])}"
    if pairs > 1:
        numbers += f" ({pairs} pairs: Holm)"
    if p["BLEU"] < ALPHA:
        verdict = f"{better} is better than {worse}: {numbers}, {conditions}."
    else:
        verdict = f"No significant difference between {better} and {worse}: {numbers} for {better}, {conditions}."
    if p["chrF"] < ALPHA and (chrf.value < 0 or p["BLEU"] >= ALPHA):
        better_by_chrf = better if chrf.value > 0 else worse
        verdict += f" By chrF {better_by_chrf} is better: {_format_difference(chrf, 'chrF')}, {_format_p(p['chrF'])}."
    return verdict


def _format_difference(found: Difference, metric: str) -> str:
    """Format a difference with its sign and interval, with the typographic minus sign."""
    low, high = found.interval
    return f"{found.value:+.1f} {metric} [{low:.1f}, {high:.1f}]".replace("-", "−")


def _format_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"


def _seeds(a: Side, b: Side) -> str:
    first, second = len(a.runs), len(b.runs)
    if first == second:
        return "one seed each" if first == 1 else f"{first} seeds each"
    return f"{first} and {second} seeds"


def _parameters(better: Side, worse: Side) -> str:
    ratio = better.mean("params") / max(worse.mean("params"), 1)
    if abs(ratio - 1) < 0.005:
        return "same number of parameters"
    return f"{ratio:.{1 if abs(ratio - 1) >= 0.05 else 2}f}× the parameters"
