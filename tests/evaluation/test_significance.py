"""Significance tests: equal to sacreBLEU's, known answers, error rate under the null hypothesis; bootstrap."""

import numpy as np
import pytest
from grammar.corpus import generate
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from heed.evaluation import significance
from heed.evaluation.significance import (
    TESTED,
    Sample,
    approximate_randomization,
    bootstrap_interval,
    difference,
    holm,
    paired_resamples,
    resample,
    seed_weights,
    sentence_statistics,
    spread,
    weighted_sums,
    wilson,
)

SENTENCES = 200


@pytest.fixture(scope="module")
def references() -> list[str]:
    return [example.tgt for example in generate(seed=3, train=1, valid=1, test=SENTENCES, long=1)["test"]]


def noisy(lines: list[str], *, seed: int, rate: float) -> list[str]:
    """Drop and repeat some of the words."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(word for word in line.split() for _ in range(rng.choice(3, p=(rate / 2, 1 - rate, rate / 2))))
        for line in lines
    ]


def swapped(a: np.ndarray, b: np.ndarray, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The null hypothesis: swap two systems on every sentence with probability 1/2."""
    coin = np.random.default_rng(seed).integers(2, size=(len(a), 1)).astype(bool)
    return np.where(coin, a, b), np.where(coin, b, a)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.text("abc äß.", max_size=24)] * 2), min_size=1, max_size=4))
def test_scores_of_summed_statistics_equal_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = map(list, zip(*pairs, strict=True))
    found = sentence_statistics(hypotheses, references, tgt_lang="de")
    for name, metric in (("BLEU", BLEU(force=True)), ("chrF", CHRF())):
        expected = metric.corpus_score(hypotheses, [references]).score
        assert TESTED[name](found[name].sum(0)) == pytest.approx(expected, abs=1e-9)


def test_p_values_equal_sacrebleu(references: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    references = references[:60]
    systems = [noisy(references, seed=seed, rate=rate) for seed, rate in ((1, 0.3), (2, 0.3))]
    monkeypatch.setattr(significance, "PAIRED_TRIALS", 200)
    ours = [sentence_statistics(system, references, tgt_lang="de") for system in systems]
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
    named = [("a", systems[0]), ("b", systems[1])]
    _, theirs = PairedTest(named, metrics, [references], test_type="ar", n_samples=200)()
    for name, key in (("BLEU", "BLEU"), ("chrF", "chrF2")):
        found = approximate_randomization(ours[0][name], ours[1][name], TESTED[name])
        assert 0.02 < theirs[key][1].p_value < 1
        assert found == pytest.approx(theirs[key][1].p_value)


def test_the_error_rate_is_nominal(references: list[str]) -> None:
    """At p < 0.05 about 2.5 of 50 nulls are significant; more than 7 with a probability of 0.003."""
    a, b = (
        sentence_statistics(noisy(references, seed=seed, rate=rate), references, tgt_lang="de")
        for seed, rate in ((1, 0.2), (2, 0.4))
    )
    for name, score in TESTED.items():
        found = {"randomization": 0, "resampling": 0}
        for seed in range(50):
            one, other = swapped(a[name], b[name], seed=seed)
            found["randomization"] += approximate_randomization(one, other, score) < 0.05
            samples = [resample([system], score, resamples=1000) for system in (one, other)]
            found["resampling"] += difference(*samples).p < 0.05
        assert max(found.values()) <= 7, (name, found)


def test_a_system_with_every_tenth_translation_empty_is_worse(references: list[str]) -> None:
    good = noisy(references, seed=1, rate=0.2)
    bad = ["" if i % 10 == 0 else line for i, line in enumerate(good)]
    ours, theirs = (sentence_statistics(system, references, tgt_lang="de") for system in (good, bad))
    for name, score in TESTED.items():
        assert approximate_randomization(ours[name], theirs[name], score) < 0.005
        found = difference(resample([ours[name]], score), resample([theirs[name]], score))
        assert found.value > 1
        assert found.p < 0.005
        assert 0 < found.interval[0] < found.value < found.interval[1]
        assert found.interval == found.over_sentences
        assert found.over_seeds is None


def test_identical_sides_do_not_differ(references: list[str]) -> None:
    found = sentence_statistics(noisy(references, seed=1, rate=0.2), references, tgt_lang="de")["BLEU"]
    same = resample([found, found], TESTED["BLEU"], resamples=200)
    assert difference(same, same).p == 1
    assert difference(same, same).interval == (0, 0)


def test_variances_over_seeds_and_over_sentences_are_separate() -> None:
    """Known answer: scores that are normal over sentences (SD 3, common to all runs) and over seeds (as given)."""
    rng = np.random.default_rng(0)
    over_sentences = rng.normal(0, 3, size=(20_000, 1))
    seeds = np.array([10.0, 12.0, 14.0, 16.0])
    side = Sample(scores=seeds, resampled=seeds + over_sentences)
    other = Sample(scores=np.array([10.0]), resampled=10.0 + rng.normal(0, 4, size=(20_000, 1)))
    found = spread(side)
    assert found.mean == 13
    assert found.over_seeds == pytest.approx(seeds.std(ddof=1))
    assert found.over_sentences == pytest.approx((13 - 1.96 * 3, 13 + 1.96 * 3), abs=0.2)
    assert spread(other).over_seeds is None
    both = difference(side, other)
    assert both.value == 3
    # The sentences of the two sides are independent: 3² + 4². Over seeds: the variance of a mean of four.
    half = 1.96 * 5
    assert both.over_sentences == pytest.approx((3 - half, 3 + half), abs=0.3)
    half = 1.96 * np.hypot(5, seeds.std(ddof=1) / 2)
    assert both.interval == pytest.approx((3 - half, 3 + half), abs=0.4)
    assert both.over_seeds is not None
    assert both.over_seeds[0] < 3 < both.over_seeds[1]


def test_holm_and_wilson_known_answers() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    # Newcombe 1998, table I: 15 of 148, and 81 of 263.
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20)[0] == 0


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
