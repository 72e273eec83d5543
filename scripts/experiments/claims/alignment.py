"""Claim: cross-attention can be read as a word alignment."""

from typing import Any

import numpy as np
from markupsafe import Markup

from experiments.aggregate import format_mean, mean_and_sd
from experiments.claim import Claim, Finding
from experiments.plots import caption, table
from experiments.runner import ExperimentRunner, TrainedModel
from experiments.small_models import LONG_STEPS, RNN_LONGER, TRANSFORMER_LONGER
from heed.evaluation.alignment import (
    Alignment,
    Gold,
    MatchCounts,
    aer,
    aer_interval,
    align_each_target,
    best_extraction,
    candidate_maps,
    match_counts,
)
from heed.synthetic import split_punctuation

SENTENCES = 500
MODELS = {RNN_LONGER: "RNN + attention", TRANSFORMER_LONGER: "transformer"}


def counts(run: TrainedModel, split: str) -> tuple[MatchCounts, MatchCounts]:
    """Return the `match_counts` of every candidate map, "N 2 L H 4", and of the diagonal, "N 4"."""
    sources, references = (run.lines(split, kind)[:SENTENCES] for kind in ("src", "ref"))
    found, diagonals = [], []
    for attended, meta in zip(run.translator.attend(sources, references), run.meta(split), strict=False):
        src_words, tgt_words = split_punctuation(attended.source), split_punctuation(attended.target)
        links = frozenset((int(src), int(tgt)) for src, tgt in meta["alignment"])
        gold = Gold(sure=links, possible=links)
        assert attended.cross is not None
        maps = candidate_maps(attended.cross, attended.src_pieces, attended.tgt_pieces, src_words, tgt_words)
        found.append(match_counts(align_each_target(maps), gold))
        diagonals.append(match_counts(diagonal(len(src_words), len(tgt_words)), gold))
    return np.stack(found), np.stack(diagonals)


def diagonal(src: int, tgt: int) -> Alignment:
    """Align each target word with the source word at the same relative position: a baseline without a model."""
    links = np.zeros((tgt, src), dtype=np.bool_)
    links[np.arange(tgt), np.arange(tgt) * src // tgt] = True
    return links


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure the alignment error rate of each model's cross-attention, and of the diagonal."""
    numbers: dict[str, Any] = {}
    rates: dict[str, dict[str, Any]] = {}
    figures: list[Markup] = []
    held = True
    for spec, label in MODELS.items():
        runs = runner.trained(spec)
        by_run = []
        for run in runs:
            extraction = best_extraction(aer(counts(run, "valid")[0].sum(0)))
            test, diagonal_test = counts(run, "test")
            chosen = test[(slice(None), *extraction.index)]
            by_run.append((extraction, aer(test.sum(0)), float(aer(chosen.sum(0))), aer_interval(chosen)))
            baseline, baseline_interval = float(aer(diagonal_test.sum(0))), aer_interval(diagonal_test)
            held &= by_run[-1][3][1] < baseline_interval[0]
        rates[label] = mean_and_sd(rate for _, _, rate, _ in by_run)
        numbers[label] = {
            "aer": rates[label],
            "intervals": [list(interval) for *_, interval in by_run],
            "extractions": [str(extraction) for extraction, *_ in by_run],
            "by map": [every.tolist() for _, every, _, _ in by_run],
        }
        extraction, every, *_ = by_run[0]
        heads = every.shape[2]
        names = [f"head {head + 1}" for head in range(heads - 1)] + ["mean"] if heads > 1 else ["attention"]
        figures += [
            caption(f"{label}: AER on test by layer and head (seed 1; chosen on validation: {extraction})"),
            table(
                ["", *names],
                [
                    [f"layer {layer + 1}, {row} row", *(f"{every[index, layer, head]:.2f}" for head in range(heads))]
                    for layer in range(every.shape[1])
                    for index, row in enumerate(("output", "input"))
                ],
            ),
        ]
    numbers["diagonal"] = {"aer": baseline, "interval": list(baseline_interval)}
    return Finding(
        held=held,
        summary=(
            "Aligning each German word with the English word of the largest attention weight gives an alignment error "
            "rate of "
            + ", ".join(f"{format_mean(rate, 2)} ({label})" for label, rate in rates.items())
            + f"; aligning along the diagonal gives {baseline:.2f}."
        ),
        numbers=numbers,
        figures=figures,
    )


CLAIM = Claim(
    name="alignment",
    claim="Attention can be read as word alignment.",
    measurement=(
        "Alignment error rate of the cross-attention, per layer and head, against the corpus's gold alignment, after "
        f"{LONG_STEPS:,} steps; the layer and head are chosen on validation sentences. The claim holds if for every "
        "model and seed the 95 % interval is below that of the diagonal (Och and Ney 2003; Luong et al. 2015, §5.5)."
    ),
    models=tuple(MODELS),
    experiment=experiment,
)
