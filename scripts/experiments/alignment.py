"""Attention as word alignment."""

from typing import Any

import numpy as np

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, Trained, shown, spread
from experiments.plots import caption, table
from experiments.recipes import LONG_STEPS, RNN_LONGER, TRANSFORMER_LONGER
from heed.data.synthetic import split_punctuation
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

SENTENCES = 500
MODELS = {RNN_LONGER: "RNN + attention", TRANSFORMER_LONGER: "transformer"}


def counts(run: Trained, split: str) -> tuple[MatchCounts, MatchCounts]:
    """`match_counts` of every candidate map, "N 2 L H 4", and of the diagonal, "N 4"."""
    sources, references = (run.lines(split, kind)[:SENTENCES] for kind in ("src", "ref"))
    found, diagonals = [], []
    for seen, meta in zip(run.translator.attend(sources, references), run.meta(split), strict=False):
        src_words, tgt_words = split_punctuation(seen.source), split_punctuation(seen.target)
        links = frozenset((int(src), int(tgt)) for src, tgt in meta["alignment"])
        gold = Gold(sure=links, possible=links)
        assert seen.cross is not None
        maps = candidate_maps(seen.cross, seen.src_pieces, seen.tgt_pieces, src_words, tgt_words)
        found.append(match_counts(align_each_target(maps), gold))
        diagonals.append(match_counts(diagonal(len(src_words), len(tgt_words)), gold))
    return np.stack(found), np.stack(diagonals)


def diagonal(src: int, tgt: int) -> Alignment:
    """Every target word with the source word at the same share of the sentence: what no model is needed for."""
    links = np.zeros((tgt, src), dtype=np.bool_)
    links[np.arange(tgt), np.arange(tgt) * src // tgt] = True
    return links


def experiment(laboratory: Laboratory) -> Finding:
    numbers: dict[str, Any] = {}
    rates: dict[str, dict[str, Any]] = {}
    figures: list[str] = []
    held = True
    for recipe, label in MODELS.items():
        runs = laboratory.runs(recipe)
        by_run = []
        for run in runs:
            extraction = best_extraction(aer(counts(run, "valid")[0].sum(0)))
            test, straight = counts(run, "test")
            chosen = test[(slice(None), *extraction.index)]
            by_run.append((extraction, aer(test.sum(0)), float(aer(chosen.sum(0))), aer_interval(chosen)))
            baseline, baseline_interval = float(aer(straight.sum(0))), aer_interval(straight)
            held &= by_run[-1][3][1] < baseline_interval[0]
        rates[label] = spread(rate for _, _, rate, _ in by_run)
        numbers[label] = {
            "aer": rates[label],
            "intervals": [list(interval) for *_, interval in by_run],
            "extractions": [str(extraction) for extraction, *_ in by_run],
            "by map": [every.tolist() for _, every, _, _ in by_run],
        }
        extraction, every, *_ = by_run[0]
        heads = every.shape[2]
        names = [f"head {head + 1}" for head in range(heads - 1)] + ["mean"] if heads > 1 else ["the one map"]
        figures += [
            caption(f"{label}: AER on test by layer and head (seed 1; chosen on valid: {extraction})"),
            table(
                ["", *names],
                [
                    [f"layer {layer + 1}, {row} row", *(f"{every[place, layer, head]:.2f}" for head in range(heads))]
                    for layer in range(every.shape[1])
                    for place, row in enumerate(("output", "input"))
                ],
            ),
        ]
    numbers["diagonal"] = {"aer": baseline, "interval": list(baseline_interval)}
    return Finding(
        held=held,
        summary=(
            "Linking every German word to the English word that is looked at most has an alignment error rate of "
            + ", ".join(f"{shown(rate, 2)} ({label})" for label, rate in rates.items())
            + f" against the gold alignment; linking along the diagonal has {baseline:.2f}."
        ),
        numbers=numbers,
        figures=figures,
    )


CLAIM = Claim(
    name="alignment",
    claim="Attention can be read.",
    measurement=(
        "Alignment error rate of the cross-attention, per layer and head, against the corpus's own gold alignment, "
        f"after {LONG_STEPS:,} steps; the map to read is chosen on validation sentences. It holds if for every model "
        "and seed the 95 % interval lies below that of the diagonal (Och and Ney 2003; Luong et al. 2015, §5.5)."
    ),
    recipes=tuple(MODELS),
    experiment=experiment,
)
