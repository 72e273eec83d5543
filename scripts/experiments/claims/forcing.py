"""Claim: the decoder's attention decides which pronoun it writes."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from experiments.antecedent_attention import has_it
from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, contrasts
from experiments.runner import TrainedModel
from experiments.small_models import LONG_STEPS, TRANSFORMER_LONGER
from heed.comparison.challenge import ContrastivePair
from heed.evaluation.significance import wilson
from heed.evaluation.words import split_punctuation, word_shares
from heed.interventions import Edit
from heed.layers.edits import AttentionKind
from heed.symbols import BOS, EOS

WRONG, UNIFORM, RIGHT = "cross, to the wrong antecedent", "cross, uniform", "cross, to the right antecedent"
ENCODER = "encoder, from “it” to the wrong antecedent"
EDITS = (WRONG, UNIFORM, RIGHT, ENCODER)


def flips(run: TrainedModel, found: Sequence[ContrastivePair]) -> tuple[int, dict[str, int]]:
    """Count the pronouns that are right without edits, and by edit those of them that become the wrong pronoun.

    The decoder reads the right translation up to the pronoun, and writes the most probable token.
    """
    right, flipped = 0, dict.fromkeys(EDITS, 0)
    for contrast in found:
        src, good, bad = _ids(run, contrast)
        position = next(t for t, (a, b) in enumerate(zip(good, bad, strict=False)) if a != b)
        if _next_token(run, src, good[:position]) == good[position]:
            right += 1
            for name, edit in _edits(run, contrast, src, position).items():
                flipped[name] += _next_token(run, src, good[:position], edit) == bad[position]
    return right, flipped


def _ids(run: TrainedModel, contrast: ContrastivePair) -> list[list[int]]:
    tokenizer = run.translator.tokenizer
    (src,) = tokenizer.encode_src([contrast.src])
    return [[*src, EOS], *tokenizer.encode_tgt([contrast.good, contrast.bad])]


def _edits(run: TrainedModel, contrast: ContrastivePair, src: Sequence[int], position: int) -> dict[str, Edit]:
    """Return the edits of all layers and heads; that of the decoder is at the position which predicts the pronoun."""
    assert contrast.antecedent is not None
    pieces = [run.translator.tokenizer.processors[0].id_to_piece(token) for token in src]
    shares = word_shares(pieces, split_punctuation(contrast.src))
    of = {role: np.flatnonzero(shares[:, word]).tolist() for role, word in contrast.antecedent.items()}

    def to(role: str, kind: AttentionKind, positions: Sequence[int]) -> Edit:
        weights = np.zeros((1, 1, 1, len(src)))
        weights[..., of[role]] = 1 / len(of[role])
        return Edit(kind, weights, positions=positions)

    return {
        WRONG: to("wrong", "cross", [position]),
        UNIFORM: Edit("cross", "uniform", positions=[position]),
        RIGHT: to("right", "cross", [position]),
        ENCODER: to("wrong", "encoder_self", of["pronoun"]),
    }


@torch.inference_mode()
def _next_token(run: TrainedModel, src: Sequence[int], prefix: Sequence[int], *edits: Edit) -> int:
    memory = run.model.encode(torch.tensor([src]), None, edits=edits)
    logits: Tensor = run.model.decode(torch.tensor([[BOS, *prefix]]), memory, edits=edits).logits
    return int(logits[0, -1].argmax())


def experiment(runs: Runs) -> Finding:
    """Force attention in the challenge sentences with “it”, and count the pronouns that change."""
    found = list(filter(has_it, contrasts()))
    counts = [flips(run, found) for run in runs["transformer"]]
    tested = [max(right, 1) for right, _ in counts]  # a model that is hardly trained has none
    shares = {name: [by[name] / of for of, (_, by) in zip(tested, counts, strict=True)] for name in EDITS}
    held = all(
        wilson(by[WRONG], of)[0] > 0.5 and by[WRONG] > max(by[UNIFORM], by[RIGHT])
        for of, (_, by) in zip(tested, counts, strict=True)
    )
    means = {name: float(np.mean(of)) for name, of in shares.items()}
    return Finding(
        held=held,
        summary=(
            f"Of {len(found)} challenge sentences, the models write {' and '.join(str(right) for right, _ in counts)} "
            f"pronouns correctly. Forced to the wrong antecedent, the decoder writes the wrong pronoun in "
            f"{means[WRONG]:.1%} of them; with uniform attention in {means[UNIFORM]:.1%}, forced to the right "
            f"antecedent in {means[RIGHT]:.1%}. Forcing “it” to the wrong antecedent in the encoder changes "
            f"{means[ENCODER]:.1%}."
        ),
        numbers={"sentences": len(found), "right": [right for right, _ in counts], "wrong pronouns": shares},
        table=[
            *(Figure(f"pronouns that become the wrong one: {name}", of, ".1%") for name, of in shares.items()),
            Figure(
                "challenge sentences whose pronoun is right without force",
                [right / len(found) for right, _ in counts],
                ".1%",
            ),
        ],
    )


CLAIM = Claim(
    name="forcing",
    claim="The decoder's attention decides the pronoun: forced to the wrong noun, it writes the wrong pronoun.",
    measurement=(
        "The share of the challenge sentences with a correct er, sie or es in which the decoder writes the pronoun of "
        "the wrong antecedent, when the cross-attention that predicts the pronoun is forced to this antecedent in all "
        "layers and heads; the same for uniform attention, for the right antecedent, and for encoder self-attention "
        f"from “it” to the wrong antecedent; after {LONG_STEPS:,} steps. The claim holds if for every seed forcing "
        "the cross-attention to the wrong antecedent changes more than half of the pronouns (Wilson's 95 % interval), "
        "and more than uniform attention and the right antecedent do."
    ),
    models={"transformer": TRANSFORMER_LONGER},
    experiment=experiment,
)
