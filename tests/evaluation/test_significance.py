"""Tests of significance against sacreBLEU's own, against known answers, and by how often they err."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from heed.data.synthetic import generate
from heed.evaluation import significance
from heed.evaluation.significance import (
    SCORES,
    Sample,
    difference,
    holm,
    paired_tests,
    sample,
    spread,
    statistics,
    wilson,
)

MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k"
SENTENCES = 200


@pytest.fixture(scope="module")
def references() -> list[str]:
    return [example.tgt for example in generate(seed=3, train=1, valid=1, test=SENTENCES, long=1)["test"]]


def noisy(lines: list[str], *, seed: int, rate: float) -> list[str]:
    """What a system might say that loses and doubles words."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(word for word in line.split() for _ in range(rng.choice(3, p=(rate / 2, 1 - rate, rate / 2))))
        for line in lines
    ]


def swapped(a: np.ndarray, b: np.ndarray, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The null: a fair coin says for every sentence which of two systems is which."""
    coin = np.random.default_rng(seed).integers(2, size=(len(a), 1)).astype(bool)
    return np.where(coin, a, b), np.where(coin, b, a)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.text("abc äß.", max_size=24)] * 2), min_size=1, max_size=4))
def test_scores_of_sums_are_those_of_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = map(list, zip(*pairs, strict=True))
    found = statistics(hypotheses, references, tgt_lang="de")
    for name, metric in (("BLEU", BLEU(force=True)), ("chrF", CHRF())):
        expected = metric.corpus_score(hypotheses, [references]).score
        assert SCORES[name](found[name].sum(0)) == pytest.approx(expected, abs=1e-9)


def test_p_values_are_those_of_sacrebleu(references: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    references = references[:60]
    systems = [noisy(references, seed=seed, rate=rate) for seed, rate in ((1, 0.3), (2, 0.3))]
    monkeypatch.setattr(significance, "PAIRED_RESAMPLES", 200)
    monkeypatch.setattr(significance, "PAIRED_TRIALS", 200)
    ours = [statistics(system, references, tgt_lang="de") for system in systems]
    for kind, field in (("bs", "bootstrap"), ("ar", "randomization")):
        metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
        named = [("a", systems[0]), ("b", systems[1])]
        _, theirs = PairedTest(named, metrics, [references], test_type=kind, n_samples=200)()
        for name, key in (("BLEU", "BLEU"), ("chrF", "chrF2")):
            tested = paired_tests(ours[0][name], ours[1][name], SCORES[name])
            assert 0.02 < theirs[key][1].p_value < 1
            # Their bootstrap sums in float32, and one resample may fall to the other side.
            assert getattr(tested, field) == pytest.approx(theirs[key][1].p_value, abs=1.01 / 201)


def test_no_difference_is_rarely_found(references: list[str]) -> None:
    """At p < 0.05 some 2.5 of 50 nulls are called different, and more than 7 in 3 of 1,000 such trials."""
    a, b = (
        statistics(noisy(references, seed=seed, rate=rate), references, tgt_lang="de")
        for seed, rate in ((1, 0.2), (2, 0.4))
    )
    for name, score in SCORES.items():
        found = {"randomization": 0, "resampling": 0}
        for seed in range(50):
            one, other = swapped(a[name], b[name], seed=seed)
            found["randomization"] += paired_tests(one, other, score).randomization < 0.05
            samples = [sample([system], score, resamples=1000) for system in (one, other)]
            found["resampling"] += difference(*samples).p < 0.05
        assert max(found.values()) <= 7, (name, found)


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs ../shared/data/multi30k")
def test_no_difference_is_rarely_found_on_multi30k() -> None:
    references = (MULTI30K / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()[:500]
    a, b = (statistics(noisy(references, seed=seed, rate=0.3), references, tgt_lang="de")["BLEU"] for seed in (1, 2))
    nulls = [swapped(a, b, seed=seed) for seed in range(50)]
    assert sum(paired_tests(*null, SCORES["BLEU"]).randomization < 0.05 for null in nulls) <= 7


def test_a_system_with_every_tenth_sentence_destroyed_is_worse(references: list[str]) -> None:
    good = noisy(references, seed=1, rate=0.2)
    bad = ["" if i % 10 == 0 else line for i, line in enumerate(good)]
    ours, theirs = (statistics(system, references, tgt_lang="de") for system in (good, bad))
    for name, score in SCORES.items():
        tested = paired_tests(ours[name], theirs[name], score)
        assert max(tested.bootstrap, tested.randomization) < 0.005
        found = difference(sample([ours[name]], score), sample([theirs[name]], score))
        assert found.value > 1
        assert found.p < 0.005
        assert 0 < found.interval[0] < found.value < found.interval[1]
        assert found.interval == found.over_sentences
        assert found.over_seeds is None


def test_identical_sides_differ_by_nothing(references: list[str]) -> None:
    found = statistics(noisy(references, seed=1, rate=0.2), references, tgt_lang="de")["BLEU"]
    same = sample([found, found], SCORES["BLEU"], resamples=200)
    assert difference(same, same).p == 1
    assert difference(same, same).interval == (0, 0)


def test_spread_over_seeds_is_apart_from_spread_over_sentences() -> None:
    """Known answer: scores that are normal in sentences (sd 3, common to all) and in seeds (as given)."""
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
    # Sentences: independent here, so 3² + 4². Seeds: the variance of a mean of four.
    half = 1.96 * 5
    assert both.over_sentences == pytest.approx((3 - half, 3 + half), abs=0.3)
    half = 1.96 * np.hypot(5, seeds.std(ddof=1) / 2)
    assert both.interval == pytest.approx((3 - half, 3 + half), abs=0.4)
    assert both.over_seeds is not None
    assert both.over_seeds[0] < 3 < both.over_seeds[1]


def test_the_mean_of_drawn_seeds_varies_as_a_mean_of_seeds_does() -> None:
    for scores in (np.array([1.0, 4.0]), np.array([2.0, 3.0, 7.0])):
        drawn = significance._seed_weights(np.random.default_rng(1), len(scores), 40_000) @ scores
        assert drawn.var() == pytest.approx(scores.var(ddof=1) / len(scores), rel=0.03)
        assert drawn.mean() == pytest.approx(scores.mean(), rel=0.02)


def test_holm_and_wilson_known_answers() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    # Newcombe 1998, table I: 15 of 148, and 81 of 263.
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20)[0] == 0
