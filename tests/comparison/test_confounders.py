"""Confounders: each unequal condition gives its warning, equal ones give none."""

import re
from dataclasses import replace
from typing import Any

import pytest

from heed.comparison import runs
from heed.comparison.confounders import (
    Fact,
    describe_match,
    describe_options,
    find_confounders,
    option_facts,
    side_facts,
)
from tests.comparison.sides import RECORDED, SIGNATURES, make_run, make_test_set

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
        ({"train_digest": "x"}, "Not a fair comparison: the training data differ."),
        ({"tokenizer_digest": "x"}, "Not a fair comparison: the tokenizers differ"),
        ({"tokens": 1000}, "Different amounts of training: b had 2.0× the tokens of a."),
        ({"tokens": 100}, "Different amounts of training: a had 5.0× the tokens of b."),
        ({"search": {"beam": 1}}, "The search settings differ"),
        ({"weights": "last"}, "The weights are selected differently"),
        ({"tests": {"test": RECORDED | {"bleu_signature": "tok:zh"}}}, "NOT COMPARABLE .*tok:zh"),
        ({"seed": 1}, "Runs of b share a seed"),
    ],
)
def test_an_unequal_condition_gives_its_warning(results: dict[str, Any], warning: str) -> None:
    (found,) = find_confounders(TEST_SET, [make_side("a"), make_side("b", **results)], SIGNATURES)
    assert re.match(warning, found)


def test_other_languages_of_the_runs_are_no_other_signature() -> None:
    """Chinese is split otherwise than English: only the compared set counts."""
    of_chinese = RECORDED | {"bleu_signature": "tok:zh"}
    results = {
        "valid": of_chinese | {"sets": {"valid-en-zh": of_chinese}},
        "tests": {"test": RECORDED, "zh": of_chinese},
    }
    assert find_confounders(TEST_SET, [make_side("a", **results), make_side("b", **results)], SIGNATURES) == []


def test_other_test_sets_are_not_other_training_data() -> None:
    same, other = make_side("a"), make_side("b", data_digest="x")
    assert find_confounders(TEST_SET, [same, other], SIGNATURES) == [
        "The training text is the same, but the validation sets or other test sets differ."
    ]
    other = make_side("b", train_digest="u", data_digest="x")
    assert find_confounders(TEST_SET, [same, other], SIGNATURES) == ["Not a fair comparison: the training data differ."]


@pytest.mark.parametrize(("params", "said"), [(1010, "matched: parameters"), (2000, "nothing was matched")])
def test_what_was_matched_to_other_runs_is_not_called_matched(params: int, said: str) -> None:
    matched = {"quantity": "params", "run": "runs/x", "options": {}}
    sides = [make_side("a"), make_side("b", params=params, match=matched)]
    assert describe_match(sides) == f"Parameters: a 1,000, b {params:,}; {said}."


def test_an_object_and_a_plain_value_are_one_option() -> None:
    decay = {"_target_": "heed.training.schedules.LinearDecay", "floor": 0.0, "steps": 9}
    sides = [
        runs.Side(name, [make_run([], {"module": {"teacher_forcing": value}})])
        for name, value in (("a", 0.5), ("b", decay))
    ]
    assert describe_options(option_facts(sides, of_model=False)) == (
        "module.teacher_forcing (0.5 | LinearDecay(floor=0.0, steps=9))"
    )


def test_a_score_that_the_search_maximized_is_biased() -> None:
    sides = [make_side(name, search={"utility": "chrf", "beam": 5}) for name in "ab"]
    assert find_confounders(TEST_SET, sides, SIGNATURES) == [
        f"chrF of {name} is biased, because minimum Bayes risk search maximized it." for name in "ab"
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


@pytest.mark.parametrize(
    ("search", "shown"),
    [
        ({"beam": 5, "utility": "chrf", "samples": 32}, "minimum Bayes risk by chrf, 32 samples and beam 5"),
        ({"temperature": 0.5}, "sampling at temperature 0.5"),
        ({}, "greedy"),
    ],
)
def test_each_kind_of_search_is_named(search: dict[str, Any], shown: str) -> None:
    facts = {fact.name: fact for fact in side_facts(TEST_SET, [make_side("a"), make_side("b", search=search)])}
    assert facts["Search"].values == ["beam 5, length penalty 1.0", shown]


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


def test_options_outside_the_model_are_conditions_and_those_of_the_model_are_compared() -> None:
    def config(family: str, **changes: Any) -> dict[str, Any]:
        own = {"_target_": f"heed.{family}", "dropout": 0.1, f"d_{family}": 8}
        return {
            "seed": 1, "name": family, "batching": {"seed": 1, "batch_tokens": 100}, "weights": "best",
            "data": {"train": [["a", "b"]], "noise": None}, "optimizer": {"_target_": "torch.AdamW", "lr": 0.1},
            "tokenizer": {"bpe_dropout": 0.0}, "module": {"label_smoothing": 0.1}, "search": {"beam": 5},
            "trainer": {"precision": "32-true", "devices": 1, "max_steps": 5}, "model": own, **changes,
        }  # fmt: skip

    def sides(train_digest: str = "a", **changes: Any) -> list[runs.Side]:
        other = [
            make_run([], config("T", **changes) | {"seed": seed}, seed=seed, train_digest=train_digest)
            for seed in SEEDS
        ]
        return [runs.Side("r", [make_run([], config("R"), seed=seed) for seed in SEEDS]), runs.Side("t", other)]

    equal = sides(trainer={"precision": "32-true", "devices": 2, "max_steps": 5}, data={"train": [["c", "d"]]})
    assert find_confounders(TEST_SET, equal, SIGNATURES) == []
    assert option_facts(equal, of_model=True) == [Fact("model", ["R", "T"], equal=False)]
    changed = sides(
        data={"train": [["a", "b"]], "noise": {"typos": 0.3}}, optimizer={"_target_": "torch.SGD", "lr": 0.2, "m": 1},
        tokenizer={"bpe_dropout": 0.3}, module={"label_smoothing": 0.0}, batching={"seed": 2, "batch_tokens": 200},
        model={"_target_": "heed.T", "dropout": 0.3}, trainer={"precision": "bf16-mixed", "max_steps": 6},
    )  # fmt: skip
    assert find_confounders(TEST_SET, changed, SIGNATURES) == [
        "Options outside the model differ: batching.batch_tokens (100 | 200), optimizer (AdamW | SGD), "
        "optimizer.lr (0.1 | 0.2), tokenizer.bpe_dropout (0.0 | 0.3), module.label_smoothing (0.1 | 0.0), "
        "trainer.precision (32-true | bf16-mixed), trainer.max_steps (5 | 6), data.noise.typos (null | 0.3)."
    ]
    assert describe_options(option_facts(changed, of_model=True)) == "model (R | T), model.dropout (0.1 | 0.3)"
    of_other_text = option_facts(sides("b", data={"train": [["c", "d"]], "noise": None}), of_model=False)
    assert [fact.name for fact in of_other_text] == ["data.train"]


def test_runs_without_their_options_are_named() -> None:
    lacking = runs.Side("b", [replace(run, config=None) for run in make_side("b").runs])
    (found,) = find_confounders(TEST_SET, [make_side("a"), lacking], SIGNATURES)
    assert found.startswith("The options of runs/x, runs/x, ")
