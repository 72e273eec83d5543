"""Claim: the heads of a layer attend to different things."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, Values
from experiments.runner import TrainedModel
from experiments.small_models import LONG_STEPS, TRANSFORMER_LONGER
from heed.evaluation.words import AttentionMap, pool, split_punctuation, word_shares
from heed.interventions import ablate
from heed.layers.edits import AttentionKind

Floats = npt.NDArray[np.float64]

ROLE_PAIRS = (("verb", "agent"), ("verb", "patient"), ("agent", "verb"), ("patient", "verb"))
"""Attention is measured from the first role to the second: for example, from the verb to its agent."""
CHOSEN = ROLE_PAIRS[:2]
"""The pairs that the claim is about."""
SENTENCES = 150
NAMES: Mapping[AttentionKind, str] = {
    "encoder_self": "encoder head",
    "decoder_self": "head of decoder self-attention",
    "cross": "head of cross-attention",
}


def divergence(weights: AttentionMap) -> Any:
    """Mean Jensen-Shannon divergence of the heads of each layer, over pairs of heads and rows.

    Args:
        weights: attention maps "L H T S".

    Returns:
        "L", in bits: 0 if all heads are equal, 1 if no two heads attend to the same position.
    """
    pairs = combinations(range(weights.shape[1]), 2)
    return np.mean([_jensen_shannon(weights[:, a], weights[:, b]).mean(-1) for a, b in pairs], axis=0)


def _jensen_shannon(p: AttentionMap, q: AttentionMap) -> Any:
    """JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2 over the last axis (Lin 1991)."""
    return _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2


def _entropy(p: AttentionMap) -> Any:
    return -(p * np.log2(p, out=np.zeros(p.shape), where=p > 0)).sum(-1)


def role_masses(run: TrainedModel, split: str) -> dict[tuple[str, str], Floats]:
    """Mean encoder self-attention of each of `ROLE_PAIRS`, by layer and head: "L H"."""
    sources, references, metas = run.lines(split, "src"), run.lines(split, "ref"), run.meta(split)
    rows = [row for row, meta in enumerate(metas) if {"verb", "agent", "patient"} <= meta["roles"].keys()]
    rows = rows[: 2 * SENTENCES]
    found: dict[tuple[str, str], list[Floats]] = {pair: [] for pair in ROLE_PAIRS}
    attention = run.translator.attend([sources[row] for row in rows], [references[row] for row in rows])
    for row, attended in zip(rows, attention, strict=True):
        assert attended.encoder_self is not None
        shares = word_shares(attended.src_pieces, split_punctuation(sources[row]))
        maps = pool(attended.encoder_self, shares, shares)
        for pair in ROLE_PAIRS:
            start, end = (metas[row]["roles"][role] for role in pair)
            found[pair].append(maps[:, :, start, end])
    return {pair: np.mean(values, axis=0) for pair, values in found.items()}


def lost_bleu(run: TrainedModel) -> dict[AttentionKind, Floats]:
    """BLEU lost on validation sentences when one head is masked, for each kind of attention: "L H"."""
    sources, references = run.lines("valid", "src")[:SENTENCES], run.lines("valid", "ref")[:SENTENCES]
    lost: dict[AttentionKind, Floats] = {kind: np.zeros(sizes) for kind, sizes in run.model.attention_heads.items()}
    _, heads = ablate(run.translator, sources, references, beam=1)
    for head in heads:
        lost[head.attention][head.layer, head.head] = head.lost["BLEU"][0]
    return lost


def experiment(runs: Runs) -> Finding:
    """Measure how much heads differ, what they attend to, and what each one contributes to BLEU."""
    seeds = runs["transformer"]
    divergences = [_divergences(run) for run in seeds]
    roles = [_best_heads(role_masses(run, "valid"), role_masses(run, "test")) for run in seeds]
    lost = lost_bleu(seeds[0])
    different = min(float(values.min()) for found in divergences for values in found.values())
    specialised = all(found[pair]["mass"] > 2 * found[pair]["mean of heads"] for found in roles for pair in CHOSEN)
    apart = all(len({(found[pair]["layer"], found[pair]["head"]) for pair in CHOSEN}) == 2 for found in roles)
    every = np.concatenate([values.ravel() for values in lost.values()])
    agent, patient = (Values(found[pair]["mass"] for found in roles) for pair in CHOSEN)
    mean = np.mean([found[pair]["mean of heads"] for found in roles for pair in CHOSEN])
    return Finding(
        held=different > 0.1 and specialised and apart,
        summary=(
            f"The heads of a layer differ by {different:.2f} bits or more on average. The best head from the verb to "
            f"its agent gives it {agent:.2f} of its attention, the best head to its patient {patient:.2f} (mean of all "
            f"heads: {mean:.2f}). Masking one head costs from {every.min():.1f} to {every.max():.1f} BLEU, "
            f"{np.median(every):.1f} in the median."
        ),
        numbers={
            "divergence": divergences,
            "roles": [{f"{a} → {b}": found[a, b] for a, b in ROLE_PAIRS} for found in roles],
            "bleu lost without head": lost,
        },
        table=[
            Figure("attention of the best head from the verb to its agent", agent, ".2f"),
            Figure("attention of the best head from the verb to its patient", patient, ".2f"),
            Figure("mean attention of all heads from the verb to either", [float(mean)], ".2f"),
            Figure(f"BLEU lost without one of {every.size} heads, median (seed 1)", [float(np.median(every))]),
            *(Figure(f"… without the most important {NAMES[kind]}", [float(of.max())]) for kind, of in lost.items()),
        ],
    )


def _divergences(run: TrainedModel) -> dict[str, Floats]:
    sources, references = run.lines("test", "src")[:SENTENCES], run.lines("test", "ref")[:SENTENCES]
    attention = run.translator.attend(sources, references)
    return {
        kind: np.mean([divergence(maps) for one in attention if (maps := getattr(one, kind)) is not None], axis=0)
        for kind in NAMES
    }


def _best_heads(
    valid: Mapping[tuple[str, str], Floats], test: Mapping[tuple[str, str], Floats]
) -> dict[tuple[str, str], dict[str, float]]:
    """For each pair of roles the head with the most attention on validation sentences, measured on test sentences."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for pair, masses in valid.items():
        layer, head = map(int, np.unravel_index(masses.argmax(), masses.shape))
        mass, mean = float(test[pair][layer, head]), float(test[pair].mean())
        found[pair] = {"layer": layer + 1, "head": head + 1, "mass": mass, "mean of heads": mean}
    return found


CLAIM = Claim(
    name="heads",
    claim="Heads attend to different things: one to who acts, another to what is acted upon.",
    measurement=(
        "Jensen-Shannon divergence between the heads of a layer; attention of encoder heads from the verb to its "
        "agent and its patient, which the corpus annotates; BLEU lost when one head is masked (Michel et al. 2019); "
        f"after {LONG_STEPS:,} steps. The claim holds if the heads of every layer differ by more than 0.1 bits on "
        "average, and if for every seed the best heads for agent and patient are two different heads, each with more "
        "than twice the mean attention of all heads."
    ),
    models={"transformer": TRANSFORMER_LONGER},
    experiment=experiment,
)
