"""Statistics of attention differences: known maps, and a head chosen on validation sentences only."""

import numpy as np
import pytest
from experiments.antecedent_attention import attention_difference, best_head, distribution, report

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
