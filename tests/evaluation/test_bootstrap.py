"""Bootstrap resampling: intervals against the normal approximation, and the variance of resampled seeds."""

import numpy as np
import pytest

from heed.evaluation.significance import bootstrap_interval, paired_resamples, seed_weights, weighted_sums


def test_interval_of_a_mean_equals_the_normal_approximation() -> None:
    values = np.random.default_rng(2).normal(5, 3, size=400)
    low, high = bootstrap_interval(values, lambda sums: sums / 400, resamples=4000)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)


def test_paired_resamples_are_drawn_with_replacement() -> None:
    counts = paired_resamples(50, 2500, seed=1)
    assert (counts.sum(1) == 50).all()
    assert counts.mean(0) == pytest.approx(np.ones(50), abs=0.1)
    assert counts.max() > 1


def test_weighted_sums_are_a_matrix_product() -> None:
    rng = np.random.default_rng(1)
    weights, values = rng.integers(3, size=(2300, 7)).astype(np.uint8), rng.random((7, 3))
    np.testing.assert_allclose(weighted_sums(weights, values), weights.astype(float) @ values, rtol=1e-12)


@pytest.mark.parametrize("scores", [[1.0, 4.0], [2.0, 3.0, 7.0]])
def test_the_mean_of_resampled_seeds_has_the_variance_of_a_mean(scores: list[float]) -> None:
    values = np.array(scores)
    means = seed_weights(np.random.default_rng(1), len(values), 40_000) @ values
    assert means.var() == pytest.approx(values.var(ddof=1) / len(values), rel=0.03)
    assert means.mean() == pytest.approx(values.mean(), rel=0.02)
