"""Tests of pairs of sides: which p-value decides, Holm's adjustment, and the verdict."""

import numpy as np
import pytest

from heed.comparison import runs
from heed.comparison.comparison import compare
from heed.comparison.pairs import PairReport, compare_pairs, side_statistics
from heed.evaluation.significance import TESTED, approximate_randomization, holm, resample
from tests.comparison.sides import make_run, make_test_set

REFERENCES = [f"the {number} dogs saw {number + 7} cats and then ran home ." for number in range(120)]


def noisy(rate: float, seed: int) -> list[str]:
    """The references without some of their words."""
    rng = np.random.default_rng(seed)
    return [" ".join(word for word in line.split() if rng.random() > rate) for line in REFERENCES]


def compare_sides(*sides: runs.Side) -> list[PairReport]:
    test_set = make_test_set(REFERENCES)
    statistics = [side_statistics(side, test_set) for side in sides]
    samples = [
        {name: resample(own[name], metric, resamples=500) for name, metric in TESTED.items()} for own in statistics
    ]
    return compare_pairs(sides, statistics, samples)


def randomized(*sides: runs.Side) -> dict[str, float]:
    """The p-values of approximate randomization for two single runs."""
    a, b = (side_statistics(side, make_test_set(REFERENCES)) for side in sides)
    return {name: approximate_randomization(a[name][0], b[name][0], metric) for name, metric in TESTED.items()}


def side(name: str, *runs_: runs.Run) -> runs.Side:
    return runs.Side(name, runs_)


def test_the_side_with_more_bleu_is_first() -> None:
    bad, good = side("bad", make_run(noisy(0.4, 1))), side("good", make_run(noisy(0.1, 2), params=1500))
    (report,) = compare_sides(bad, good)
    assert (report.better, report.worse) == ("good", "bad")
    assert report.differences["BLEU"].value > 0
    assert report.verdict.startswith("good is better than bad: +")
    assert report.verdict.endswith(", p < 0.001, one seed each; 1.5× the parameters.")


def test_single_runs_are_tested_by_randomization_and_groups_by_the_bootstrap() -> None:
    one, other = make_run(noisy(0.2, 1)), make_run(noisy(0.2, 2))
    (single,) = compare_sides(side("a", one), side("b", other))
    assert single.p == randomized(side("a", one), side("b", other))
    (group,) = compare_sides(side("a", one), side("b", other, make_run(noisy(0.2, 3))))
    assert group.p == {name: group.differences[name].p for name in TESTED}
    assert ", 1 and 2 seeds; " in group.verdict or ", 2 and 1 seeds; " in group.verdict


def test_p_values_are_adjusted_for_the_pairs_that_are_not_identical() -> None:
    first, twin = (side(name, make_run(noisy(0.2, 1))) for name in ("first", "twin"))
    others = [side("b", make_run(noisy(0.21, 2))), side("c", make_run(noisy(0.25, 3)))]
    reports = compare_sides(first, twin, *others)
    by_name = {one.name: one for one in (first, twin, *others)}
    tested = [report for report in reports if report.p]
    assert [report.identical for report in reports].count(True) == 1
    assert len(tested) == 5
    for name in TESTED:
        unadjusted = [randomized(by_name[report.better], by_name[report.worse])[name] for report in tested]
        assert [report.p[name] for report in tested] == holm(unadjusted)
    assert all("(5 pairs: Holm)" in report.verdict for report in tested)


def test_identical_sides_are_not_tested() -> None:
    run = make_run(noisy(0.2, 1))
    (report,) = compare_sides(side("a", run), side("b", run))
    assert (report.identical, report.p) == (True, {})
    assert report.verdict == "a and b are identical: every translation is the same."


def test_equal_systems_have_no_significant_difference() -> None:
    (report,) = compare_sides(side("a", make_run(noisy(0.2, 1))), side("b", make_run(noisy(0.2, 2))))
    assert report.p["BLEU"] > 0.05
    assert report.verdict.startswith(f"No significant difference between {report.better} and {report.worse}: +")
    assert report.verdict.endswith("same number of parameters.")


@pytest.mark.parametrize(
    ("steps", "fault"), [((60, 999), "not trained enough ({} and {} steps)"), ((60, 1000), "broken")]
)
def test_two_models_that_do_not_translate_are_not_compared(steps: tuple[int, int], fault: str) -> None:
    a, b = make_run(["x"] * 120, steps=steps[0]), make_run(["the dogs y"] * 120, steps=steps[1])
    (report,) = compare_sides(side("a", a), side("b", b))
    in_order = steps if report.better == "a" else steps[::-1]
    assert report.verdict == (
        f"Both models are {fault.format(*in_order)}: neither {report.better} nor {report.worse} translates "
        "(0.0 and 0.0 BLEU, both below 2). Their difference does not say which model is better."
    )
    assert report.p == {}
    (identical,) = compare_sides(side("a", a), side("c", make_run(["x"] * 120)))
    assert identical.verdict.startswith("Both models are not trained enough (")
    assert identical.verdict.endswith("are identical: every translation is the same.")


def test_one_sentence_is_about_all_systems_that_do_not_translate() -> None:
    untrained = [side(name, make_run([f"{name} the"] * 120, steps=steps)) for name, steps in (("a", 60), ("b", 70))]
    untrained.append(side("c", make_run(["the dogs y"] * 120, steps=60)))
    (verdict,) = compare(make_test_set(REFERENCES), untrained).verdict
    assert verdict == (
        "None of the 3 systems translates (0.0 BLEU, below 2): they are not trained enough (60 to 70 steps)."
    )
    summary, *others = compare(make_test_set(REFERENCES), [side("good", make_run(noisy(0.2, 1))), *untrained]).verdict
    assert summary == (
        "3 of the 4 systems do not translate (0.0 BLEU, below 2): they are not trained enough (60 to 70 steps). "
        "They are a, b, c."
    )
    assert [other.partition(":")[0] for other in others] == [f"good is better than {name}" for name in "abc"]


def test_one_broken_model_is_compared() -> None:
    (report,) = compare_sides(side("a", make_run(["x"] * 120)), side("b", make_run(noisy(0.2, 1))))
    assert report.verdict.startswith("b is better than a: +")
