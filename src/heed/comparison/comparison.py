"""The comparison of two or more sides: scores, tests, confounders, buckets, examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from heed.comparison.confounders import Fact, describe_match, find_confounders, option_facts, side_facts
from heed.comparison.pairs import PairReport, SideStatistics, compare_pairs, side_statistics, verdicts
from heed.comparison.runs import Side, TestSet
from heed.evaluation.buckets import bucketings
from heed.evaluation.scores import Metric, MetricScore, compute, corpus_scores
from heed.evaluation.significance import TESTED, Sample, Spread, chrf_of_sums, resample, spread
from heed.evaluation.symptoms import find_symptoms
from heed.progress import track

BUCKET_RESAMPLES = 1_000
MIN_BUCKET_SENTENCES = 20
"""Pages show no score of smaller buckets: the bootstrap's intervals would be too narrow. For two models with 56 and 67
BLEU, the 95 % interval covers the BLEU of the whole test set in 49 % of random buckets of 2 sentences, in 83 % of 5, in
92 % of 20 and in 95 % of 30."""
SHOWN_EXAMPLES = 8
EXTREMES = 3  # the best and the worst sentences of each side


@dataclass(frozen=True)
class BucketReport:
    """The scores of every side, in their order, on one bucket of sentences."""

    label: str
    sentences: int
    scores: dict[str, list[Spread]]


@dataclass(frozen=True)
class BucketingReport:
    """The scores on each bucket of a partition of the test set."""

    title: str
    note: str
    buckets: list[BucketReport]


@dataclass(frozen=True)
class TranslationExample:
    """A sentence with the translations of each side's first run."""

    line: int  # counted from 1
    source: str
    reference: str
    tag: str | None
    translations: list[str]
    chrf: list[float]


@dataclass(frozen=True)
class Extremes:
    """The translations of a side's first run with the highest and with the lowest chrF, the most extreme first."""

    best: list[TranslationExample]
    worst: list[TranslationExample]


@dataclass(frozen=True)
class SideReport:
    """The scores and symptoms of one side."""

    name: str
    runs: list[str]
    seeds: list[int]
    scores: dict[str, Spread]
    scores_by_run: dict[str, list[float]]
    metrics: dict[str, list[float]]  # the scores of each run by further metrics
    symptoms: dict[str, list[list[int]]]  # by symptom and run, the lines that show it, counted from 1


@dataclass(frozen=True)
class OtherTestSet:
    """The tests on a further test set."""

    split: str
    sentences: int
    pairs: list[PairReport]


@dataclass(frozen=True)
class Comparison:
    """The contents of ``compare.json``."""

    split: str  # the test set of all details: scores, buckets, examples
    sentences: int
    signatures: dict[str, str]
    verdict: list[str]  # on each pair of sides, on every test set
    match: str  # the parameters of the sides, and what ``match=`` made equal
    warnings: list[str]
    sides: list[SideReport]
    pairs: list[PairReport]
    others: list[OtherTestSet]
    facts: list[Fact]  # the conditions
    compared: list[Fact]  # the options of the models that differ
    bucketings: list[BucketingReport]
    examples: list[TranslationExample]  # the sentences on which the sides differ most
    extremes: list[Extremes]  # the best and the worst sentences of each side


def compare(
    test_set: TestSet,
    sides: Sequence[Side],
    others: Sequence[tuple[TestSet, Sequence[Side]]] = (),
    metrics: Mapping[str, Metric] = MappingProxyType({}),
) -> Comparison:
    """Score all runs with the same metrics, test all pairs of sides, and list confounders, buckets and examples.

    Args:
        test_set: the test set of all details.
        sides: the sides, with their translations of ``test_set``.
        others: further test sets, on which the sides are tested too.
        metrics: further metrics by name, computed on ``test_set``.
    """
    tgt_lang = test_set.direction.tgt_lang
    scored = corpus_scores(test_set.references, test_set.references, tgt_lang=tgt_lang)
    further = [[compute(metrics, run.output(test_set)) for run in side.runs] for side in sides]
    signatures = {name: score.signature for name, score in further[0][0].items()}
    signatures |= {"BLEU": scored.bleu_signature, "chrF": scored.chrf_signature}
    statistics, samples, pairs = _test(test_set, sides)
    verdict, other_sets = {test_set.split: verdicts(pairs, sides, samples)}, []
    for other, translated in others:
        _, other_samples, tested = _test(other, translated)
        other_sets.append(OtherTestSet(other.split, len(other.sources), tested))
        verdict[other.split] = verdicts(tested, translated, other_samples)
    return Comparison(
        split=test_set.split,
        sentences=len(test_set.sources),
        signatures=signatures,
        verdict=[f"On {split}: {each}" if others else each for split, found in verdict.items() for each in found],
        match=describe_match(sides),
        warnings=find_confounders(test_set, sides, signatures),
        sides=[_side_report(*parts, test_set) for parts in zip(sides, samples, further, strict=True)],
        pairs=pairs,
        others=other_sets,
        facts=[*side_facts(test_set, sides), *option_facts(sides, of_model=False)],
        compared=option_facts(sides, of_model=True),
        bucketings=bucketing_reports(test_set, statistics),
        examples=largest_differences(test_set, sides, statistics),
        extremes=extremes(test_set, sides, statistics),
    )


def _test(
    test_set: TestSet, sides: Sequence[Side]
) -> tuple[list[SideStatistics], list[dict[str, Sample]], list[PairReport]]:
    """Return the statistics and the resampled scores of each side, and the tests of all pairs."""
    statistics = [side_statistics(side, test_set) for side in sides]
    samples = [
        {name: resample(runs[name], metric) for name, metric in TESTED.items()}
        for runs in track(statistics, "Resampling test sets", unit="systems")
    ]
    return statistics, samples, compare_pairs(sides, statistics, samples)


def _side_report(
    side: Side, samples: Mapping[str, Sample], further: Sequence[Mapping[str, MetricScore]], test_set: TestSet
) -> SideReport:
    by_run = [find_symptoms(test_set.sources, test_set.references, run.translations) for run in side.runs]
    return SideReport(
        name=side.name,
        runs=[str(run.path) for run in side.runs],
        seeds=[run.results.get("seed", 0) for run in side.runs],
        scores={metric: spread(sample) for metric, sample in samples.items()},
        scores_by_run={metric: sample.scores.tolist() for metric, sample in samples.items()},
        metrics={name: [scores[name].value for scores in further] for name in further[0]},
        symptoms={symptom: [[row + 1 for row in run[symptom]] for run in by_run] for symptom in by_run[0]},
    )


# ---- scores by bucket, and the sentences on which the sides differ most


def bucketing_reports(test_set: TestSet, statistics: Sequence[SideStatistics]) -> list[BucketingReport]:
    """Return the scores by each partition of the test set that has at least two buckets."""

    def score(rows: list[int], side: SideStatistics, name: str) -> Spread:
        return spread(resample([run[rows] for run in side[name]], TESTED[name], resamples=BUCKET_RESAMPLES))

    reports = []
    found = bucketings(test_set.sources, test_set.references, tags=test_set.tags, word_counts=test_set.word_counts)
    for each in (bucketing for bucketing in found if len(bucketing.buckets) > 1):
        buckets = [
            BucketReport(label, len(rows), {name: [score(rows, side, name) for side in statistics] for name in TESTED})
            for label, rows in track(each.buckets.items(), f"Scoring buckets: {each.title}", unit="buckets")
        ]
        reports.append(BucketingReport(each.title, each.note, buckets))
    return reports


def largest_differences(
    test_set: TestSet, sides: Sequence[Side], statistics: Sequence[SideStatistics]
) -> list[TranslationExample]:
    """Return the `SHOWN_EXAMPLES` sentences with the largest differences in chrF between the first runs.

    For two sides, each side has the higher chrF in at most half of them.
    """
    values = np.stack([chrf_of_sums(side["chrF"][0]) for side in statistics])
    ranges = values.max(0) - values.min(0)
    rankings = [np.where(values.argmax(0) == side, ranges, 0.0) for side in (0, 1)] if len(sides) == 2 else [ranges]
    rows = [
        row
        for gains in rankings
        for row in np.argsort(-gains, kind="stable")[: SHOWN_EXAMPLES // len(rankings)].tolist()
        if gains[row] > 0
    ]
    return [_example(row, test_set, sides, values) for row in rows]


def extremes(test_set: TestSet, sides: Sequence[Side], statistics: Sequence[SideStatistics]) -> list[Extremes]:
    """Return the best and the worst sentences of each side. Of equal scores, the longer sentence is more extreme."""
    lengths = np.array([len(source) for source in test_set.sources])
    found = []
    for number, side in enumerate(sides):
        values = chrf_of_sums(statistics[number]["chrF"][0])
        best, worst = (np.lexsort((-lengths, order))[:EXTREMES].tolist() for order in (-values, values))
        examples = [[_example(row, test_set, [side], values[None]) for row in rows] for rows in (best, worst)]
        found.append(Extremes(*examples))
    return found


def _example(row: int, test_set: TestSet, sides: Sequence[Side], values: npt.NDArray[np.float64]) -> TranslationExample:
    """Return a sentence with the translations of each side; ``values`` are the chrF of side and sentence."""
    return TranslationExample(
        line=row + 1,
        source=test_set.sources[row],
        reference=test_set.references[row],
        tag=test_set.tags[row] if test_set.tags else None,
        translations=[side.runs[0].translations[row] for side in sides],
        chrf=values[:, row].tolist(),
    )
