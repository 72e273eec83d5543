"""The comparison of two or more sides: scores, tests, confounders, buckets, examples."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heed.compare.breakdown import BucketingReport, TranslationExample, bucketing_reports, largest_differences
from heed.compare.confounders import Fact, find_confounders, side_facts
from heed.compare.pairs import PairReport, compare_pairs
from heed.compare.runs import Side, TestSet
from heed.compare.statistics import side_statistics
from heed.evaluation.scores import corpus_scores
from heed.evaluation.significance import METRICS, Sample, Spread, resample, spread
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
    symptoms: dict[str, list[list[int]]]
    """By symptom and run, the lines that show it, counted from 1."""


@dataclass(frozen=True)
class Comparison:
    """The contents of ``compare.json``."""

    split: str
    sentences: int
    signatures: dict[str, str]
    verdict: list[str]
    warnings: list[str]
    sides: list[SideReport]
    pairs: list[PairReport]
    facts: list[Fact]
    bucketings: list[BucketingReport]
    examples: list[TranslationExample]

    def to_plain(self) -> dict[str, Any]:
        """Return it as numbers, strings, lists and dicts."""
        return asdict(self)


def compare(test_set: TestSet, sides: Sequence[Side]) -> Comparison:
    """Score all runs with the same metrics, test all pairs of sides, and list confounders, buckets and examples."""
    tgt_lang = sides[0].runs[0].results.get("tgt_lang", "und")
    scored = corpus_scores(test_set.references[:1], test_set.references[:1], tgt_lang=tgt_lang)
    signatures = {"BLEU": scored.bleu_signature, "chrF": scored.chrf_signature}
    statistics = [side_statistics(side, test_set, tgt_lang=tgt_lang) for side in sides]
    samples = [
        {name: resample(runs[name], metric) for name, metric in METRICS.items()}
        for runs in track(statistics, "Resampling test sets", unit="systems")
    ]
    pairs = compare_pairs(sides, statistics, samples)
    return Comparison(
        split=test_set.split,
        sentences=len(test_set.sources),
        signatures=signatures,
        verdict=[pair.verdict for pair in pairs],
        warnings=find_confounders(test_set, sides, signatures),
        sides=[_side_report(side, test_set, own) for side, own in zip(sides, samples, strict=True)],
        pairs=pairs,
        facts=side_facts(test_set, sides),
        bucketings=bucketing_reports(test_set, statistics),
        examples=largest_differences(test_set, sides, statistics),
    )


def _side_report(side: Side, test_set: TestSet, samples: Mapping[str, Sample]) -> SideReport:
    by_run = [find_symptoms(test_set.sources, test_set.references, run.translations) for run in side.runs]
    return SideReport(
        name=side.name,
        runs=[str(run.path) for run in side.runs],
        seeds=[run.results.get("seed", 0) for run in side.runs],
        scores={metric: spread(sample) for metric, sample in samples.items()},
        scores_by_run={metric: sample.scores.tolist() for metric, sample in samples.items()},
        symptoms={symptom: [[row + 1 for row in run[symptom]] for run in by_run] for symptom in by_run[0]},
    )
