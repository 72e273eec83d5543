"""Confounders: each unequal condition gives its warning, equal ones give none."""

import re
from typing import Any

import pytest

from heed.compare import runs
from heed.compare.confounders import find_confounders, side_facts
from tests.compare.sides import SIGNATURES, make_run, make_test_set

TEST_SET = make_test_set([f"line {number}" for number in range(100)])
SEEDS = range(1, 6)


def make_side(name: str, **results: Any) -> runs.Side:
    """Five seeds, so that only the given results give a warning."""
    return runs.Side(name, [make_run([], **{"seed": seed, **results}) for seed in SEEDS])


def test_equal_conditions_give_no_warning() -> None:
    assert find_confounders(TEST_SET, [make_side("a"), make_side("b", params=2000)], SIGNATURES) == []


@pytest.mark.parametrize(
    ("results", "warning"),
    [
        ({"data_fingerprint": "x"}, "Not a fair comparison: the training data differ."),
        ({"tokenizer_hash": "x"}, "Not a fair comparison: the tokenizers differ"),
        ({"tokens": 1000}, "Different amounts of training: b had 2.0× the tokens of a."),
        ({"tokens": 100}, "Different amounts of training: a had 5.0× the tokens of b."),
        ({"search": {"beam": 1}}, "The search settings differ"),
        ({"weights": "last"}, "The weights are selected differently"),
        ({"valid": {"bleu_signature": "tok:zh", "chrf_signature": SIGNATURES["chrF"]}}, "NOT COMPARABLE .*tok:zh"),
        ({"seed": 1}, "Runs of b share a seed"),
    ],
)
def test_an_unequal_condition_gives_its_warning(results: dict[str, Any], warning: str) -> None:
    (found,) = find_confounders(TEST_SET, [make_side("a"), make_side("b", **results)], SIGNATURES)
    assert re.match(warning, found)


def test_updates_stand_in_for_tokens_of_older_runs() -> None:
    old = make_side("old", steps=30)
    for run in old.runs:
        del run.results["tokens"]  # type: ignore[attr-defined]
    assert find_confounders(TEST_SET, [make_side("a"), old], SIGNATURES) == [
        "Different amounts of training: old had 3.0× the updates of a."
    ]


def test_runs_of_a_side_should_differ_in_the_seed_only() -> None:
    odd = runs.Side("odd", [*make_side("odd").runs, make_run([], seed=9, params=7, model="transformer")])
    found = find_confounders(TEST_SET, [make_side("a"), odd], SIGNATURES)
    assert found == ["The runs of odd differ in more than their seeds: model, params."]


@pytest.mark.parametrize(
    ("numbers", "warning"),
    [
        ((1, 1), "One seed each"),
        ((1, 5), "A system has fewer than five seeds"),
        ((5, 4), "A system has fewer than five"),
    ],
)
def test_few_seeds_give_a_warning(numbers: tuple[int, int], warning: str) -> None:
    sides = [runs.Side(name, make_side(name).runs[:number]) for name, number in zip("ab", numbers, strict=True)]
    (found,) = find_confounders(TEST_SET, sides, SIGNATURES)
    assert found.startswith(warning)


def test_a_small_validation_set_gives_two_warnings() -> None:
    test_set = make_test_set(["a"], split="valid")
    selected, small = find_confounders(test_set, [make_side("a"), make_side("b")], SIGNATURES)
    assert "selected on the validation set" in selected
    assert small.startswith("Only 1 sentences")


def test_facts_are_formatted_and_compared_over_all_runs() -> None:
    sides = [make_side("a", git=None), make_side("b", params=2_000_000, search={})]
    sides[1] = runs.Side("b", [*sides[1].runs, make_run([], params=1_000_000, search={})])
    facts = {fact.name: fact for fact in side_facts(TEST_SET, sides)}
    assert facts["Parameters"].values == ["1,000", "1,000,000 – 2,000,000"]
    assert facts["Search"].values == ["beam 5, length penalty 1.0", "greedy"]
    assert facts["Device"].values == [None, None]
    assert facts["Test set"].values == ["test, 100 sentences"] * 2
    assert not facts["Parameters"].equal
    assert facts["Tokenizer"].equal
