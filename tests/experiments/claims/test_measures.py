"""The measures of the claims, against known answers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import RNN
from experiments.claims import CLAIMS, forcing, order
from experiments.claims.alignment import diagonal
from experiments.claims.heads import divergence
from experiments.claims.parallel import LENGTHS, exponent
from experiments.claims.pruning import removable
from experiments.claims.scaling import jacobian_norm, softmax_of_scores
from experiments.claims.vanishing_gradients import factor, gradients
from experiments.runner import TrainedModel

from heed.comparison.challenge import ContrastivePair
from heed.models import build_model
from tests.finished import FinishedRun


def test_there_are_fourteen_claims_and_models_of_one_name_are_equal() -> None:
    assert len({claim.name for claim in CLAIMS}) == 14
    specs = {spec.name: spec for claim in CLAIMS for spec in claim.models.values()}
    assert all(spec == specs[spec.name] for claim in CLAIMS for spec in claim.models.values())


def test_jacobian_norm_equals_autograd() -> None:
    scores = torch.randn(5, 7, dtype=torch.float64)
    expected = [
        torch.autograd.functional.jacobian(lambda s: s.softmax(0), row).norm()  # type: ignore[no-untyped-call]
        for row in scores
    ]
    torch.testing.assert_close(jacobian_norm(scores.softmax(1)), torch.stack(expected))


def test_jacobian_norm_of_a_saturated_softmax() -> None:
    """The Jacobian of softmax over two keys has four entries of ±p (1 − p) = ±0.0099."""
    assert jacobian_norm(torch.tensor([[0.99, 0.01]], dtype=torch.float64)).item() == pytest.approx(2 * 0.0099)


def test_variance_of_scores_is_their_width_unless_scaled() -> None:
    assert softmax_of_scores(256, scaled=False)["variance"] == pytest.approx(256, rel=0.1)
    assert softmax_of_scores(256, scaled=True)["variance"] == pytest.approx(1, rel=0.1)
    assert softmax_of_scores(256, scaled=True)["entropy"] < math.log(32)


def test_divergence_of_disjoint_heads_is_one_bit_and_of_equal_heads_zero() -> None:
    maps = np.zeros((2, 3, 4, 6))
    maps[0, [0, 1, 2], :, [0, 1, 2]] = 1
    maps[1, :] = 1 / 6
    assert divergence(maps).tolist() == pytest.approx([1, 0])


def test_diagonal_alignment() -> None:
    assert diagonal(3, 3).tolist() == np.eye(3, dtype=bool).tolist()
    assert diagonal(2, 4).argmax(1).tolist() == [0, 0, 1, 1]


def test_exponent_of_a_power() -> None:
    assert exponent([7.0 * n**1.7 for n in LENGTHS]) == pytest.approx(1.7)


def test_gradients_of_a_known_recurrence() -> None:
    """An RNN with W = r I and small inputs multiplies the gradient by about r at each position."""
    attention = replace(RNN.attention, score="none", input_feeding=False)
    config = replace(
        RNN, cell="tanh", d_embedding=4, d_model=4, bidirectional=False, tie_embeddings=False, attention=attention
    )
    torch.manual_seed(0)
    model = build_model(config, src_vocab=9, tgt_vocab=9, joint=False)
    with torch.no_grad():
        for parameter in model.get_submodule("encoder").parameters():
            parameter.mul_(1e-3)
        hidden = dict(model.get_submodule("encoder").named_parameters())
        (name,) = [name for name in hidden if "hh" in name and hidden[name].dim() == 2]
        hidden[name].copy_(0.8 * torch.eye(4))
    norms = gradients(model, [[4, 5, 6, 7, 8, 4, 5]], [5])
    assert factor(norms) == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "alibi", "relative"])
def test_properties_of_position_codes(kind: str) -> None:
    found = order.properties(kind)
    assert found["deterministic"]
    assert found["equal distances"] == (kind != "learned")
    assert found["bounded"] == (kind != "alibi")
    assert found["unique"]


@pytest.mark.parametrize(("scores", "number"), [([90, 89.5, 88.9, 91], 1), ([90, 90, 89, 89], 3), ([90, 50], 0)])
def test_heads_are_removable_until_the_score_falls_by_one(scores: list[float], number: int) -> None:
    assert removable(scores) == number


def test_forced_attention_is_on_the_antecedent(finished: FinishedRun) -> None:
    run = TrainedModel("finished", 1, finished.folder)
    src = "The animal did not cross the street because it was tired."
    antecedent = {"pronoun": 8, "right": 1, "wrong": 6}
    contrast = ContrastivePair(src, "weil es müde war.", "weil sie müde war.", "pronoun", antecedent)
    ids, good, bad = forcing._ids(run, contrast)
    edits = forcing._edits(run, contrast, ids, 3)
    pieces = run.translator.tokenizer.processors[0].encode(src, out_type=str)
    for name, word in ((forcing.WRONG, "street"), (forcing.RIGHT, "animal"), (forcing.ENCODER, "street")):
        weights = np.asarray(edits[name].weights)[0, 0, 0, 0]
        assert "".join(pieces[i] for i in np.flatnonzero(weights)) == f"▁{word}"
        assert weights.sum() == pytest.approx(1)
    assert "".join(pieces[i] for i in edits[forcing.ENCODER].positions or ()) == "▁it"
    assert edits[forcing.WRONG].positions == [3]
    assert good != bad
