"""Claim: cross-attention can be read as a word alignment."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, Values
from experiments.runner import TrainedModel
from experiments.small_models import LONG_STEPS, RNN_LONGER, TRANSFORMER_LONGER
from heed.evaluation import alignment
from heed.evaluation.significance import bootstrap_interval
from heed.evaluation.words import split_punctuation

SENTENCES = 500


class ErrorRates(NamedTuple):
    """Alignment error rates of a run on the test set, with 95 % intervals."""

    extraction: alignment.Extraction
    """The map that is best on validation sentences."""
    by_map: npt.NDArray[np.float64]
    """By row, layer and head, "2 L H"."""
    interval: tuple[float, float]
    diagonal: float
    diagonal_interval: tuple[float, float]


def counts(run: TrainedModel, split: str) -> tuple[alignment.MatchCounts, alignment.MatchCounts]:
    """Return the `match_counts` of every candidate map, "N 2 L H 4", and of the diagonal, "N 4"."""
    sources, references = (run.lines(split, kind)[:SENTENCES] for kind in ("src", "ref"))
    found, diagonals = [], []
    for attended, meta in zip(run.translator.attend(sources, references), run.meta(split), strict=False):
        src, tgt = split_punctuation(attended.source), split_punctuation(attended.target)
        links = frozenset((int(src), int(tgt)) for src, tgt in meta["alignment"])
        gold = alignment.Gold(sure=links, possible=links)
        assert attended.cross is not None
        maps = alignment.candidate_maps(attended.cross, attended.src_pieces, attended.tgt_pieces, src, tgt)
        found.append(alignment.match_counts(alignment.align_each_target(maps), gold))
        diagonals.append(alignment.match_counts(diagonal(len(src), len(tgt)), gold))
    return np.stack(found), np.stack(diagonals)


def diagonal(src: int, tgt: int) -> alignment.Alignment:
    """Align each target word with the source word at the same relative position: a baseline without a model."""
    links = np.zeros((tgt, src), dtype=np.bool_)
    links[np.arange(tgt), np.arange(tgt) * src // tgt] = True
    return links


def measure(run: TrainedModel) -> ErrorRates:
    """Choose a map on validation sentences, and measure all maps and the diagonal on the test set."""
    extraction = alignment.best_extraction(alignment.aer(counts(run, "valid")[0].sum(0)))
    test, baseline = counts(run, "test")
    interval = bootstrap_interval(test[(slice(None), *extraction.index)], alignment.aer)
    diagonal_rate = float(alignment.aer(baseline.sum(0)))
    diagonal_interval = bootstrap_interval(baseline, alignment.aer)
    return ErrorRates(extraction, alignment.aer(test.sum(0)), interval, diagonal_rate, diagonal_interval)


def experiment(runs: Runs) -> Finding:
    """Measure the alignment error rate of each model's cross-attention, and of the diagonal."""
    found = {label: [measure(run) for run in seeds] for label, seeds in runs.items()}
    rates = {label: Values(one.by_map[one.extraction.index] for one in seeds) for label, seeds in found.items()}
    every = [one for seeds in found.values() for one in seeds]
    of_models = {
        label: {
            "aer": rates[label],
            "intervals": [one.interval for one in seeds],
            "extractions": [str(one.extraction) for one in seeds],
            "by map": [one.by_map for one in seeds],
        }
        for label, seeds in found.items()
    }
    of_diagonal = {"aer": every[0].diagonal, "interval": every[0].diagonal_interval}
    return Finding(
        held=all(one.interval[1] < one.diagonal_interval[0] for one in every),
        summary=(
            "Aligning each German word with the English word of the largest attention weight gives an alignment error "
            f"rate of {', '.join(f'{rate:.2f} ({label})' for label, rate in rates.items())}; aligning along the "
            f"diagonal gives {every[0].diagonal:.2f}."
        ),
        numbers={**of_models, "diagonal": of_diagonal},
        table=[
            *(Figure(f"alignment error rate, {label}", rate, ".2f") for label, rate in rates.items()),
            Figure("alignment error rate of the diagonal", [every[0].diagonal], ".2f"),
        ],
    )


CLAIM = Claim(
    name="alignment",
    claim="Attention can be read as word alignment.",
    measurement=(
        "Alignment error rate of the cross-attention, per layer and head, against the corpus's gold alignment, after "
        f"{LONG_STEPS:,} steps; the layer and head are chosen on validation sentences. The claim holds if for every "
        "model and seed the 95 % interval is below the diagonal's rate (Och and Ney 2003; Luong et al. 2015, §5.5)."
    ),
    models={"RNN + attention": RNN_LONGER, "transformer": TRANSFORMER_LONGER},
    experiment=experiment,
)
