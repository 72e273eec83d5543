"""Sufficient statistics of all runs of a side."""

from collections.abc import Mapping, Sequence

from heed.compare.runs import Side, TestSet
from heed.evaluation.significance import METRICS, Statistics, sentence_statistics
from heed.progress import track

SideStatistics = Mapping[str, Sequence[Statistics]]
"""By metric, the statistics "N K" of each run."""


def side_statistics(side: Side, test_set: TestSet, *, tgt_lang: str) -> SideStatistics:
    """Return the sufficient statistics of every run of a side."""
    runs = [
        sentence_statistics(run.translations, test_set.references, tgt_lang=tgt_lang)
        for run in track(side.runs, f"Counting n-grams of {side.name}", unit="runs")
    ]
    return {metric: [run[metric] for run in runs] for metric in METRICS}
