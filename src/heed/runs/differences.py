"""Differences in test BLEU among groups of runs, each of one configuration with several seeds."""

from collections.abc import Sequence
from pathlib import Path

from heed.errors import HeedError
from heed.runs.results import RESULTS, read_results


def compare_with_first(groups: Sequence[Sequence[Path]]) -> list[tuple[float, float]]:
    """Return the difference of each further group's mean test BLEU from that of the first group, and its p-value.

    See `heed.evaluation.significance.difference`; p is adjusted for the number of groups (Holm). The test set is the
    first one of the first run.

    Returns:
        (difference, p) of each group but the first; nothing if the runs have no common test set.
    """
    from heed.evaluation.significance import Sample, bleu, difference, holm, resample, sentence_statistics

    try:
        results = read_results(groups[0][0] / RESULTS)
        split, tgt_lang = next(iter(results["tests"])), results["tgt_lang"]
        references, *others = [_read(run, f"{split}.ref") for group in groups for run in group]
        translations = [[_read(run, f"{split}.hyp") for run in group] for group in groups]
    except (HeedError, OSError, KeyError, ValueError, StopIteration):  # copied, damaged or untested runs
        return []
    lengths = {len(hypotheses) for group in translations for hypotheses in group}
    if lengths != {len(references)} or any(other != references for other in others):
        return []

    def sample(group: Sequence[Sequence[str]]) -> Sample:
        counts = [sentence_statistics(hypotheses, references, tgt_lang=tgt_lang)["BLEU"] for hypotheses in group]
        return resample(counts, bleu)

    first, *samples = map(sample, translations)
    found = [difference(each, first) for each in samples]
    return [(each.value, p) for each, p in zip(found, holm([each.p for each in found]), strict=True)]


def _read(run: Path, file: str) -> list[str]:
    return (run / "translations" / file).read_bytes().decode().split("\n")[:-1]
