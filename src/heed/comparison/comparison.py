"""The comparison of two or more sides: scores, tests, confounders, buckets, examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from heed.comparison.breakdown import (
    BucketingReport,
    Extremes,
    TranslationExample,
    bucketing_reports,
    extremes,
    largest_differences,
)
from heed.comparison.confounders import Fact, describe_match, find_confounders, option_facts, side_facts
from heed.comparison.pairs import PairReport, SideStatistics, compare_pairs, side_statistics, verdicts
from heed.comparison.runs import Side, TestSet
from heed.evaluation.scores import Metric, MetricScore, compute, corpus_scores
from heed.evaluation.significance import TESTED, Sample, Spread, resample, spread
from heed.evaluation.symptoms import find_symptoms
from heed.progress import track


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
