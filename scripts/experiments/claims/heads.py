"""Claim: the heads of a layer attend to different things."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from experiments.aggregate import format_mean, mean_and_sd
from experiments.claim import Claim, Finding
from experiments.plots import caption, table
from experiments.runner import ExperimentRunner, TrainedModel
from experiments.small_models import LONG_STEPS, TRANSFORMER_LONGER
from heed.evaluation.scores import corpus_scores
from heed.evaluation.words import AttentionMap, pool, word_shares
from heed.models.ablation import heads_off
from heed.models.transformer import Transformer
from heed.synthetic import split_punctuation

Floats = npt.NDArray[np.float64]

ROLE_PAIRS = (("verb", "agent"), ("verb", "patient"), ("agent", "verb"), ("patient", "verb"))
"""Attention is measured from the first role to the second: for example, from the verb to its agent."""
SENTENCES = 150
KINDS = {"encoder_self": "encoder self-attention", "decoder_self": "decoder self-attention", "cross": "cross-attention"}


def divergence(weights: AttentionMap) -> Floats:
    """Mean Jensen-Shannon divergence of the heads of each layer, over pairs of heads and rows.

    Args:
        weights: attention maps "L H T S".

    Returns:
        "L", in bits: 0 if all heads are equal, 1 if no two heads attend to the same position.
    """
    heads = range(weights.shape[1])
    pairs = [_jensen_shannon(weights[:, a], weights[:, b]).mean(-1) for a, b in combinations(heads, 2)]
    mean: Floats = np.mean(pairs, axis=0)
    return mean


def _jensen_shannon(p: AttentionMap, q: AttentionMap) -> Floats:
    """JS(p, q) = H((p + q) / 2) − (H(p) + H(q)) / 2 over the last axis (Lin 1991)."""
    difference: Floats = _entropy((p + q) / 2) - (_entropy(p) + _entropy(q)) / 2
    return difference


def _entropy(p: AttentionMap) -> Floats:
    terms = p * np.log2(p, out=np.zeros(p.shape), where=p > 0)
    total: Floats = -terms.sum(-1)
    return total


def role_masses(run: TrainedModel, split: str) -> dict[tuple[str, str], Floats]:
    """Mean encoder self-attention of each of `ROLE_PAIRS`, by layer and head: "L H"."""
    sources, references, metas = run.lines(split, "src"), run.lines(split, "ref"), run.meta(split)
    rows = [row for row, meta in enumerate(metas) if {"verb", "agent", "patient"} <= meta["roles"].keys()][
        : 2 * SENTENCES
    ]
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


def lost_bleu(run: TrainedModel) -> dict[str, Floats]:
    """BLEU lost on validation sentences when one head is masked, for each kind of attention: "L H"."""
    model = run.model
    assert isinstance(model, Transformer)
    sources, references = run.lines("valid", "src")[:SENTENCES], run.lines("valid", "ref")[:SENTENCES]

    def bleu() -> float:
        return corpus_scores(run.translator.translate(sources), references, tgt_lang="de").bleu

    whole = bleu()
    depths = {"encoder_self": len(model.encoder), "decoder_self": len(model.decoder), "cross": len(model.decoder)}
    lost: dict[str, Floats] = {}
    for kind, depth in depths.items():
        lost[kind] = np.zeros((depth, model.config.num_heads))
        for layer, head in np.ndindex(lost[kind].shape):
            with heads_off(model, {(kind, layer, head)}):
                lost[kind][layer, head] = whole - bleu()
    return lost


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure how much heads differ, what they attend to, and what each one contributes to BLEU."""
    runs = runner.trained(TRANSFORMER_LONGER)
    divergences = [_divergences(run) for run in runs]
    roles = [_best_heads(role_masses(run, "valid"), role_masses(run, "test")) for run in runs]
    lost = lost_bleu(runs[0])
    different = min(float(values.min()) for found in divergences for values in found.values())
    specialised = all(
        found[pair]["mass"] > 2 * found[pair]["mean of heads"] for found in roles for pair in ROLE_PAIRS[:2]
    )
    apart = all(_layer_and_head(found[ROLE_PAIRS[0]]) != _layer_and_head(found[ROLE_PAIRS[1]]) for found in roles)
    every = np.concatenate([values.ravel() for values in lost.values()])
    agent, patient = (mean_and_sd(found[pair]["mass"] for found in roles) for pair in ROLE_PAIRS[:2])
    return Finding(
        held=different > 0.1 and specialised and apart,
        summary=(
            f"The heads of a layer differ by {different:.2f} bits or more on average. The best head from the verb to "
            f"its agent gives it {format_mean(agent, 2)} of its attention, the best head to its patient "
            f"{format_mean(patient, 2)} (mean of all heads: "
            f"{np.mean([found[pair]['mean of heads'] for found in roles for pair in ROLE_PAIRS[:2]]):.2f}). Masking "
            f"one head costs from {every.min():.1f} to {every.max():.1f} BLEU, {np.median(every):.1f} in the median."
        ),
        numbers={
            "divergence": [{kind: values.tolist() for kind, values in found.items()} for found in divergences],
            "roles": [{f"{a} → {b}": found[a, b] for a, b in ROLE_PAIRS} for found in roles],
            "bleu lost without head": {kind: values.tolist() for kind, values in lost.items()},
        },
        figures=[
            caption("Divergence of the heads of a layer, in bits (0: equal, 1: disjoint)"),
            table(
                ["layer", *KINDS.values()],
                [
                    [str(layer + 1), *(_format([found[kind][layer] for found in divergences]) for kind in KINDS)]
                    for layer in range(len(divergences[0]["cross"]))
                ],
            ),
            caption("Encoder heads and roles: head chosen on validation, measured on test"),
            table(
                ["from → to", *(f"seed {run.seed}" for run in runs), "mean of all heads"],
                [
                    [
                        f"{a} → {b}",
                        *(
                            f"layer {found[a, b]['layer']}, head {found[a, b]['head']}: {found[a, b]['mass']:.2f}"
                            for found in roles
                        ),
                        f"{np.mean([found[a, b]['mean of heads'] for found in roles]):.2f}",
                    ]
                    for a, b in ROLE_PAIRS
                ],
            ),
            caption(f"BLEU lost on {SENTENCES} validation sentences when one head is masked (seed 1)"),
            table(
                ["", *(f"head {head + 1}" for head in range(lost["cross"].shape[1]))],
                [
                    [f"{title}, layer {layer + 1}", *(f"{value:.1f}".replace("-", "−") for value in lost[kind][layer])]
                    for kind, title in KINDS.items()
                    for layer in range(len(lost[kind]))
                ],
            ),
        ],
    )


def _divergences(run: TrainedModel) -> dict[str, Floats]:
    sources, references = run.lines("test", "src")[:SENTENCES], run.lines("test", "ref")[:SENTENCES]
    attention = run.translator.attend(sources, references)
    return {
        kind: np.mean([divergence(maps) for one in attention if (maps := getattr(one, kind)) is not None], axis=0)
        for kind in KINDS
    }


def _best_heads(
    valid: Mapping[tuple[str, str], Floats], test: Mapping[tuple[str, str], Floats]
) -> dict[tuple[str, str], dict[str, float]]:
    """For each pair of roles the head with the most attention on validation sentences, measured on test sentences."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for pair in valid:
        layer, head = np.unravel_index(valid[pair].argmax(), valid[pair].shape)
        found[pair] = {
            "layer": int(layer) + 1,
            "head": int(head) + 1,
            "mass": float(test[pair][layer, head]),
            "mean of heads": float(test[pair].mean()),
        }
    return found


def _layer_and_head(found: Mapping[str, float]) -> tuple[float, float]:
    return found["layer"], found["head"]


def _format(values: Sequence[float]) -> str:
    return format_mean(mean_and_sd(values), 2)


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
    models=(TRANSFORMER_LONGER,),
    experiment=experiment,
)
