"""Whether the heads of a layer do different work."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, Trained, shown, spread
from experiments.plots import caption, table
from experiments.recipes import LONG_STEPS, TRANSFORMER_LONGER
from heed.data.synthetic import split_punctuation
from heed.evaluation.scores import corpus_scores
from heed.evaluation.words import AttentionMap, pool, word_shares
from heed.models.ablation import heads_off
from heed.models.transformer import Transformer

Floats = npt.NDArray[np.float64]

LOOKS = (("verb", "agent"), ("verb", "patient"), ("agent", "verb"), ("patient", "verb"))
"""From a word with a role to another: who, what, did what."""
SENTENCES = 150
KINDS = {"encoder_self": "encoder self-attention", "decoder_self": "decoder self-attention", "cross": "cross-attention"}


def divergence(weights: AttentionMap) -> Floats:
    """Mean Jensen-Shannon divergence of the heads of each layer, pair by pair and row by row, in bits: " L".

    From 0 (all heads look alike) to 1 (no two heads ever look at the same); of maps "L H T S".
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


def role_masses(run: Trained, split: str) -> dict[tuple[str, str], Floats]:
    """Mean attention from one role to another in the encoder, by layer and head: "L H"."""
    sources, references, metas = run.lines(split, "src"), run.lines(split, "ref"), run.meta(split)
    rows = [row for row, meta in enumerate(metas) if {"verb", "agent", "patient"} <= meta["roles"].keys()][
        : 2 * SENTENCES
    ]
    found: dict[tuple[str, str], list[Floats]] = {look: [] for look in LOOKS}
    seen = run.translator.attend([sources[row] for row in rows], [references[row] for row in rows])
    for row, attended in zip(rows, seen, strict=True):
        assert attended.encoder_self is not None
        shares = word_shares(attended.src_pieces, split_punctuation(sources[row]))
        maps = pool(attended.encoder_self, shares, shares)
        for look in LOOKS:
            start, end = (metas[row]["roles"][role] for role in look)
            found[look].append(maps[:, :, start, end])
    return {look: np.mean(values, axis=0) for look, values in found.items()}


def lost_bleu(run: Trained) -> dict[str, Floats]:
    """BLEU lost on validation sentences when a single head is switched off, by kind, layer and head: "L H"."""
    model = run.model
    assert isinstance(model, Transformer)
    sources, references = run.lines("valid", "src")[:SENTENCES], run.lines("valid", "ref")[:SENTENCES]

    def bleu() -> float:
        return corpus_scores(run.translator.translate(sources), references, tgt_lang="de").bleu

    whole = bleu()
    depths = {"encoder_self": len(model.encoder), "decoder_self": len(model.decoder), "cross": len(model.decoder)}
    lost = {}
    for kind, depth in depths.items():
        lost[kind] = np.zeros((depth, model.config.num_heads))
        for place in np.ndindex(lost[kind].shape):
            with heads_off(model, {(kind, place[0], place[1])}):
                lost[kind][place] = whole - bleu()
    return lost


def experiment(laboratory: Laboratory) -> Finding:
    runs = laboratory.runs(TRANSFORMER_LONGER)
    divergences = [_divergences(run) for run in runs]
    roles = [_best_heads(role_masses(run, "valid"), role_masses(run, "test")) for run in runs]
    lost = lost_bleu(runs[0])
    different = min(float(values.min()) for found in divergences for values in found.values())
    specialised = all(found[look]["mass"] > 2 * found[look]["mean of heads"] for found in roles for look in LOOKS[:2])
    apart = all(_place(found[LOOKS[0]]) != _place(found[LOOKS[1]]) for found in roles)
    every = np.concatenate([values.ravel() for values in lost.values()])
    who, what = (spread(found[look]["mass"] for found in roles) for look in LOOKS[:2])
    return Finding(
        held=different > 0.1 and specialised and apart,
        summary=(
            f"Two heads of a layer differ by {different:.2f} bits or more. The head that looks best from the verb to "
            f"who acts gives it {shown(who, 2)} of its attention, another gives {shown(what, 2)} to what is acted "
            "upon (all heads on average: "
            f"{np.mean([found[look]['mean of heads'] for found in roles for look in LOOKS[:2]]):.2f}). Switching one "
            f"head off costs from {every.min():.1f} to {every.max():.1f} BLEU, {np.median(every):.1f} in the median."
        ),
        numbers={
            "divergence": [{kind: values.tolist() for kind, values in found.items()} for found in divergences],
            "roles": [{f"{a} → {b}": found[a, b] for a, b in LOOKS} for found in roles],
            "bleu lost without head": {kind: values.tolist() for kind, values in lost.items()},
        },
        figures=[
            caption("How different the heads of a layer are, in bits (0: alike, 1: nothing in common)"),
            table(
                ["layer", *KINDS.values()],
                [
                    [str(layer + 1), *(_pm([found[kind][layer] for found in divergences]) for kind in KINDS)]
                    for layer in range(len(divergences[0]["cross"]))
                ],
            ),
            caption("Encoder heads and roles: chosen on validation, measured on test"),
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
                    for a, b in LOOKS
                ],
            ),
            caption(f"BLEU lost on {SENTENCES} validation sentences when one head is switched off (seed 1)"),
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


def _divergences(run: Trained) -> dict[str, Floats]:
    sources, references = run.lines("test", "src")[:SENTENCES], run.lines("test", "ref")[:SENTENCES]
    seen = run.translator.attend(sources, references)
    return {
        kind: np.mean([divergence(maps) for one in seen if (maps := getattr(one, kind)) is not None], axis=0)
        for kind in KINDS
    }


def _best_heads(
    valid: Mapping[tuple[str, str], Floats], test: Mapping[tuple[str, str], Floats]
) -> dict[tuple[str, str], dict[str, float]]:
    """For each look the head that gives most, chosen on validation sentences and measured on others."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for look in valid:
        layer, head = np.unravel_index(valid[look].argmax(), valid[look].shape)
        found[look] = {
            "layer": int(layer) + 1,
            "head": int(head) + 1,
            "mass": float(test[look][layer, head]),
            "mean of heads": float(test[look].mean()),
        }
    return found


def _place(found: Mapping[str, float]) -> tuple[float, float]:
    return found["layer"], found["head"]


def _pm(values: Sequence[float]) -> str:
    return shown(spread(values), 2)


CLAIM = Claim(
    name="heads",
    claim="Heads attend to different things: one to who, another to what was done.",
    measurement=(
        "Jensen-Shannon divergence between the heads of a layer; attention of encoder heads from the verb to its "
        "agent and its patient, which the corpus knows; BLEU lost when one head is switched off (Michel et al. 2019); "
        f"after {LONG_STEPS:,} steps. "
        "It holds if heads of every layer differ by more than 0.1 bits on average, and if for every seed the heads "
        "that look best at agent and patient are two, each giving at least twice what heads give on average."
    ),
    recipes=(TRANSFORMER_LONGER,),
    experiment=experiment,
)
