"""The measures of the claims, and of attention from pronouns and ambiguous nouns, against known answers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import RNN
from experiments.antecedent_attention import attention_difference, best_head, distribution, german_pronoun, report
from experiments.claims import CLAIMS, forcing, order
from experiments.claims.alignment import diagonal
from experiments.claims.heads import divergence
from experiments.claims.parallel import LENGTHS, exponent
from experiments.claims.pruning import removable
from experiments.claims.scaling import jacobian_norm, softmax_of_scores
from experiments.claims.vanishing_gradients import factor, gradients
from experiments.runner import TrainedModel
from experiments.sense_attention import deciding_words
from experiments.timing import saved_bytes
from torch import Tensor, nn

from heed.comparison.challenge import ContrastivePair
from heed.evaluation.words import split_punctuation
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


ANTECEDENT = {"right": 0, "wrong": 2}


def test_attention_difference_is_right_minus_wrong() -> None:
    maps = np.zeros((2, 3, 5, 5))
    maps[1, 2, 3] = [0.5, 0.1, 0.2, 0.1, 0.0]
    maps[0, 0, 3] = [0.0, 0.0, 1.0, 0.0, 0.0]
    maps[0, 1, 0] = [1.0, 0.0, 0.0, 0.0, 0.0]  # attention of another word
    assert attention_difference(maps, 3, ANTECEDENT).tolist() == [[-1, 0, 0], [0, 0, pytest.approx(0.3)]]


def test_head_is_chosen_on_validation_sentences_only() -> None:
    rng = np.random.default_rng(0)
    valid, challenge = rng.normal(0, 0.1, (80, 2, 3)), rng.normal(0, 0.1, (200, 2, 3))
    valid[:, 1, 0] += 0.3
    challenge[:, 1, 0] += 0.2
    challenge[:, 0, 2] += 0.9
    assert best_head(valid) == (1, 0)
    found = report(valid, challenge)
    assert (found.layer, found.head) == (2, 1)
    assert found.challenge == distribution(challenge[:, 1, 0])
    np.testing.assert_allclose(found.by_head, challenge.mean(0))


def test_distribution_of_known_numbers() -> None:
    found = distribution([-0.5, 0.0, 0.25, 0.5, 1.0])
    assert (found.number, found.mean, found.positive) == (5, pytest.approx(0.25), pytest.approx(0.6))
    assert found.quantiles == (-0.5, 0.0, 0.25, 0.5, 1.0)

    values = np.random.default_rng(1).normal(0.1, 0.5, 400)
    low, high = distribution(values, resamples=4000).interval
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.01)


def test_german_pronoun_is_the_last() -> None:
    tokens = split_punctuation("Es stimmt, dass die Kuh müde war, weil sie zu faul war.")
    assert tokens[german_pronoun(tokens)] == "sie"


def test_deciding_words_are_those_in_which_twins_differ() -> None:
    one, twin = (
        ContrastivePair(src=src, good="", bad="", tag="sense")
        for src in ("He saw a bank in the old town.", "He saw a bank beside the river.")
    )
    assert [split_punctuation(one.src)[position] for position in deciding_words(one, twin)] == ["in", "old", "town"]
    assert [split_punctuation(twin.src)[position] for position in deciding_words(twin, one)] == ["beside", "river"]


def test_saved_bytes_are_those_a_linear_layer_needs() -> None:
    layer, x = nn.Linear(30, 40, bias=False), torch.randn(50, 30, requires_grad=True)

    def forward() -> Tensor:
        out: Tensor = layer(x)
        return out

    assert saved_bytes(forward) == 4 * (50 * 30 + 30 * 40)
