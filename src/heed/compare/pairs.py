"""Significance tests between all pairs of sides, and the verdict on each pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from heed.compare.runs import Side
from heed.compare.statistics import SideStatistics
from heed.evaluation.significance import METRICS, Difference, PairedTests, Sample, difference, holm, paired_tests
from heed.progress import track

ALPHA = 0.05
"""A difference with a smaller p-value is significant."""
MIN_BLEU = 2.0
"""A system with less BLEU does not translate: the references of other sentences get about as much (2.6 on the built-in
corpus)."""
MIN_STEPS = 1000
"""A run of fewer steps that does not translate is not trained enough; after a longer one something else is wrong."""


@dataclass(frozen=True)
class PairReport:
    """Two sides, the one with more BLEU first."""

    better: str
    worse: str
    identical: bool
    """All translations are equal, so nothing was tested."""
    differences: dict[str, Difference]
    tests: dict[str, PairedTests] | None
    """sacreBLEU's tests, if both sides are one run."""
    p: dict[str, float]
    """The p-value of the verdict: by approximate randomization for two runs, by the bootstrap for groups of runs, both
    adjusted for the number of pairs. Empty if nothing was tested: identical sides, or none that translates."""
    verdict: str


@dataclass(frozen=True)
class _TestedPair:
    """A pair before the p-values are adjusted."""

    better: Side
    worse: Side
    identical: bool
    bleu: tuple[float, float]
    """The BLEU of both, averaged over seeds."""
    differences: dict[str, Difference]
    tests: dict[str, PairedTests] | None

    @property
    def translates(self) -> bool:
        """Whether at least one side translates. Otherwise their difference means nothing."""
        return max(self.bleu) >= MIN_BLEU

    def p_value(self, metric: str) -> float:
        return self.tests[metric].randomization if self.tests else self.differences[metric].p


def compare_pairs(
    sides: Sequence[Side], statistics: Sequence[SideStatistics], samples: Sequence[Mapping[str, Sample]]
) -> list[PairReport]:
    """Test all pairs of sides.

    Pairs that are identical or do not translate are not tested. p-values are adjusted by Holm's method over the others.

    Args:
        sides: The sides.
        statistics: Sufficient statistics of each side.
        samples: Resampled scores of each side, by metric.
    """
    pairs = []
    for i, j in track(list(combinations(range(len(sides)), 2)), "Testing differences", unit="pairs of systems"):
        if _mean_bleu(samples[i]) < _mean_bleu(samples[j]):
            i, j = j, i
        bleu = _mean_bleu(samples[i]), _mean_bleu(samples[j])
        identical = _sorted_translations(sides[i]) == _sorted_translations(sides[j])
        tests = None
        if len(sides[i].runs) == len(sides[j].runs) == 1 and not identical and max(bleu) >= MIN_BLEU:
            tests = {
                name: paired_tests(statistics[i][name][0], statistics[j][name][0], metric)
                for name, metric in METRICS.items()
            }
        differences = {name: difference(samples[i][name], samples[j][name]) for name in METRICS}
        pairs.append(_TestedPair(sides[i], sides[j], identical, bleu, differences, tests))
    tested = [pair for pair in pairs if not pair.identical and pair.translates]
    adjusted = {name: iter(holm([pair.p_value(name) for pair in tested])) for name in METRICS}
    reports = []
    for pair in pairs:
        p = {name: next(adjusted[name]) for name in METRICS} if not pair.identical and pair.translates else {}
        verdict = _verdict(pair, p, pairs=len(tested))
        reports.append(
            PairReport(pair.better.name, pair.worse.name, pair.identical, pair.differences, pair.tests, p, verdict)
        )
    return reports


def _mean_bleu(samples: Mapping[str, Sample]) -> float:
    return float(samples["BLEU"].scores.mean())


def _sorted_translations(side: Side) -> list[list[str]]:
    return sorted(run.translations for run in side.runs)


def _verdict(pair: _TestedPair, p: Mapping[str, float], *, pairs: int) -> str:
    """Return the verdict: first of all whether any system translates, then which one is better.

    Args:
        pair: The pair.
        p: Adjusted p-values by metric; empty if the pair was not tested.
        pairs: Number of pairs that the p-values are adjusted for.
    """
    better, worse = pair.better.name, pair.worse.name
    if pair.identical:
        comparison = f"{better} and {worse} are identical: every translation is the same."
    elif pair.translates:
        comparison = _comparison(pair, p, pairs=pairs)
    else:
        comparison = "Their difference does not say which model is better."
    if pair.translates:
        return comparison
    scores = " and ".join(f"{bleu:.1f}" for bleu in pair.bleu)
    steps = [side.mean("steps") for side in (pair.better, pair.worse)]
    fault = f"not trained enough ({steps[0]:,.0f} and {steps[1]:,.0f} steps)" if max(steps) < MIN_STEPS else "broken"
    return (
        f"Both models are {fault}: neither {better} nor {worse} translates ({scores} BLEU, both below {MIN_BLEU:g}). "
        f"{comparison}"
    )


def _comparison(pair: _TestedPair, p: Mapping[str, float], *, pairs: int) -> str:
    """Return which side is better, with the numbers that say so."""
    better, worse = pair.better.name, pair.worse.name
    chrf, numbers = pair.differences["chrF"], _numbers(pair, p, pairs=pairs)
    conditions = f"{_seeds(pair.better, pair.worse)}; {_parameters(pair.better, pair.worse)}"
    if p["BLEU"] < ALPHA:
        verdict = f"{better} is better than {worse}: {numbers}, {conditions}."
    else:
        verdict = f"No significant difference between {better} and {worse}: {numbers} for {better}, {conditions}."
    if p["chrF"] < ALPHA and (chrf.value < 0 or p["BLEU"] >= ALPHA):
        better_by_chrf = better if chrf.value > 0 else worse
        verdict += f" By chrF {better_by_chrf} is better: {_format_difference(chrf, 'chrF')}, {_format_p(p['chrF'])}."
    return verdict


def _numbers(pair: _TestedPair, p: Mapping[str, float], *, pairs: int) -> str:
    """Return the difference in BLEU with its interval and p-value."""
    numbers = f"{_format_difference(pair.differences['BLEU'], 'BLEU')}, {_format_p(p['BLEU'])}"
    return numbers + (f" ({pairs} pairs: Holm)" if pairs > 1 else "")


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
