"""Each rule is sure of its cause, and silent about a run without faults."""

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from heed.evaluation.diagnosis import (
    AT_VALIDATION,
    BEFORE_TRAINING,
    MILD,
    SENTENCES,
    Facts,
    compare_with_start,
    describe,
    describe_differences,
    diagnose,
    symptom_shares,
)
from heed.evaluation.parallel_text import LINES, WRITING, Fault, Sides

OF_SETS = {"scored_swapped", "scored_duplicates", "scored_empty"}
NO_SYMPTOMS = {"empty": 0.0, "too short": 0.01, "source language": 0.0, "copied source": 0.0, "repeats": 0.02,
               "same": 0.01}  # fmt: skip
GOOD = Facts(
    family="transformer", dropout=0.1, usual_lr=1e-3, fine_tuned=False, pairs=30_000, chars=3_600_000, vocab=7_500,
    warmup_steps=400, planned_steps=6_000, batch_tokens=1_500, steps_per_epoch=300, unigram_nll=6.5, cut=0.0,
    beyond=0.0, unknown=0.001, dropped=0.02, target_length=0.95, text=Sides([], []), valid=Sides([], []),
    faults=[Fault("untranslated", 0.001, [3])],
)  # fmt: skip
TRAINED = {
    "step": 6_000, "nll": 2.0, "lowest_nll": 2.0, "peak_lr": 1e-3, "loss": 1.9, "best_loss": 1.9, "loss_earlier": 1.91,
    "best_step": 6_000, "bleu": 30.0, "bleu_before": 29.5, "bleu_earlier": 29.0, "symptoms": NO_SYMPTOMS,
    "padding": 0.05, "ends": True,
}  # fmt: skip
STUCK = {"step": 900, "nll": 6.4, "lowest_nll": 6.3, "loss": 6.6, "best_loss": 6.6, "best_step": 900, "bleu": 0.0,
         "bleu_before": 0.0, "bleu_earlier": 0.0, "ends": False}  # fmt: skip
NOT_TRANSLATING = {"loss": 4.5, "best_loss": 4.5, "nll": 4.0, "lowest_nll": 4.0, "bleu": 0.3, "bleu_before": 0.3,
                   "bleu_earlier": 0.2}  # fmt: skip

EXAMPLES: dict[str, dict[str, Any]] = {
    "cleaning": {"dropped": 0.5},
    "dropout": {"dropout": 0.9},
    "step_size": {"planned_steps": 100, "steps_per_epoch": 5, "warmup_steps": 10},
    "few_steps": {"planned_steps": 100, "warmup_steps": 10},
    "warm_up": {"warmup_steps": 4_000},
    "vocabulary": {"vocab": 32_000},
    "length_limit": {"cut": 0.8},
    "short_targets": {"target_length": 0.5},
    "short_text": {"beyond": 0.6},
    "unknown_characters": {"unknown": 0.2},
    "other_vocabulary": {"unknown": 0.2, "fine_tuned": True},
    "unknown_words": {"unknown": 0.2, "has_words": True},
    "high_learning_rate": {**STUCK, "peak_lr": 0.1},
    "rising_loss": {**TRAINED, "nll": 4.0, "bleu": 20.0},
    "low_learning_rate": {**STUCK, "peak_lr": 1e-5},
    "no_warm_up": {**STUCK, "warmup_steps": 0},
    "memorised": {"nll": 0.4, "lowest_nll": 0.4, "loss": 3.5, "best_loss": 2.5, "best_step": 2_000, "bleu": 25.0},
    "ended_early": {"bleu": 36.0},
    "few_pairs": {**NOT_TRANSLATING, "pairs": 3_000, "best_step": 5_000, "best_loss": 4.4},
    "does_not_translate": {**NOT_TRANSLATING, "best_step": 5_000, "best_loss": 4.4},
    "source_language": {"symptoms": {**NO_SYMPTOMS, "source language": 0.4}},
    "short_translations": {"symptoms": {**NO_SYMPTOMS, "empty": 0.1, "too short": 0.3}},
    "undertrained": {"symptoms": {**NO_SYMPTOMS, "repeats": 0.4}},
    "padding": {"padding": 0.7},
    "skipped_steps": {"skipped": 900},
}


def test_nothing_is_said_about_a_good_run() -> None:
    assert diagnose(GOOD) == {}
    assert diagnose(replace(GOOD, **TRAINED)) == {}


def test_early_validations_are_no_reason_to_say_anything() -> None:
    early = {"step": 300, "loss": 6.0, "best_loss": 6.0, "best_step": 300, "bleu": 0.0, "bleu_before": 0.0, "nll": 6.4,
             "lowest_nll": 6.4, "ends": False, "symptoms": {**NO_SYMPTOMS, "same": 1.0, "repeats": 0.9}}  # fmt: skip
    assert diagnose(replace(GOOD, **{**TRAINED, **early})) == {}


@pytest.mark.parametrize("name", [*BEFORE_TRAINING, *AT_VALIDATION])
def test_each_rule_speaks_alone(name: str) -> None:
    facts = replace(GOOD, **{**(TRAINED if name in AT_VALIDATION else {}), **EXAMPLES[name]})
    said = diagnose(facts)
    assert set(said) == {name}
    assert said[name].endswith(".")
    assert "{" not in said[name]


@pytest.mark.parametrize(("usual", "rate", "said"), [(1e-2, 0.05, set()), (1e-2, 0.1, {"high_learning_rate"}),
                                                     (1e-2, 5e-4, {"low_learning_rate"}),
                                                     (None, 0.0, set()), (None, 1e3, set())])  # fmt: skip
def test_rates_are_judged_by_what_suits_the_optimizer(usual: float | None, rate: float, said: set[str]) -> None:
    stuck = replace(GOOD, **{**TRAINED, **STUCK, "usual_lr": usual, "peak_lr": rate})
    assert set(diagnose(stuck)) == said


def test_faults_of_a_part_of_the_text_are_said_and_those_of_single_pairs_are_not() -> None:
    said = diagnose(replace(GOOD, faults=[Fault("swapped", 0.25, [1, 2]), Fault("encoding", 0.001, [7])]))
    assert said == {"swapped": "In at least 25% of the training pairs the languages are swapped: swap them back."}


def test_a_known_cause_is_not_said_again_as_a_symptom() -> None:
    facts = replace(GOOD, **{**TRAINED, **NOT_TRANSLATING, "faults": [Fault("shifted", 1.0)]})
    assert diagnose(facts) == {}


def test_what_a_stuck_model_writes_is_no_sign_of_bad_text() -> None:
    stuck = {**TRAINED, **STUCK, "ends": True, "symptoms": {**NO_SYMPTOMS, "copied source": 0.4, "too short": 0.5}}
    assert set(diagnose(replace(GOOD, **stuck))) == set()


def test_translations_that_still_improve_may_be_short() -> None:
    short = {"symptoms": {**NO_SYMPTOMS, "empty": 0.1, "too short": 0.3}, "bleu": 1.3}
    assert set(diagnose(replace(GOOD, **{**TRAINED, **short, "bleu_earlier": 0.8}))) == {"ended_early"}
    assert set(diagnose(replace(GOOD, **{**TRAINED, **short, "bleu_earlier": 1.2}))) == {"short_translations"}
    assert set(diagnose(replace(GOOD, **{**TRAINED, **short, "bleu_earlier": 1.2, "loss_earlier": 2.1}))) == set()


def test_sentences_use_known_facts_and_belong_to_rules() -> None:
    for name in (*BEFORE_TRAINING, *AT_VALIDATION):
        SENTENCES[name].format(replace(GOOD, **TRAINED))
    of_texts = {*LINES, *WRITING, *MILD, "swapped", "untranslated", "third_language", "shifted", "unrelated",
                "duplicates", "empty", "script", "numbered", "constant"}  # fmt: skip
    after = {"worse_than_before", "forgotten"}
    assert {*SENTENCES} == {*BEFORE_TRAINING, *AT_VALIDATION, *of_texts, *OF_SETS, *after}


@pytest.mark.parametrize(("share", "percent"), [(1.0, "100%"), (0.25, "25%"), (0.3333, "33.3%"), (0.0001, "0.01%")])
def test_a_fault_is_described_with_its_text(share: float, percent: str) -> None:
    assert describe(Fault("markup", share)).startswith(f"{percent} of the training pairs have")
    assert describe(Fault("markup", share, split="valid")).startswith(f"{percent} of the validation pairs have")
    assert describe(Fault("markup", share, split="news")).startswith(f"{percent} of the pairs of news have")
    for name in OF_SETS:
        fault = Fault(name.removeprefix("scored_"), share, split="test")
        assert describe(fault) == SENTENCES[name].format(fault) != describe(fault._replace(split=""))


def test_a_run_names_faults_of_its_sets_unless_they_are_small_or_mild() -> None:
    faults = [Fault("markup", 1.0, [0], "valid"), Fault("empty", 0.3, [3], "news"), Fault("empty", 0.01, [3], "test"),
              Fault("duplicates", 0.3, [3], "test"), Fault("spaces", 0.5, [3]), Fault("markup", 0.02, [3])]  # fmt: skip
    assert {*diagnose(replace(GOOD, faults=faults))} == {"valid.markup", "news.empty", "markup"}


def test_every_set_of_a_fine_tuned_model_is_compared_with_its_start() -> None:
    scores = {"valid": (40.0, 38.1), "domain": (10.0, 60.0), "general": (99.7, 0.04), "old": (30.0, 27.5)}
    assert compare_with_start(scores, ["valid"]) == {
        "forgotten": "Fine-tuning forgot what it did not train on (general fell from BLEU 99.7 to 0.0, old fell from "
        "BLEU 30.0 to 27.5): mix old text into data.train, lower optimizer.lr, or train fewer steps."
    }
    assert compare_with_start({"valid": (40.0, 37.9), "test": (40.0, 38.1)}, ["valid"]) == {
        "worse_than_before": "The model is worse than before fine-tuning (valid fell from BLEU 40.0 to 37.9): divide "
        "optimizer.lr by 10."
    }


def test_symptoms_of_translations() -> None:
    text = Sides(["the dog is in the house"] * 40, ["der Hund ist in dem Haus"] * 40)
    valid = Sides(["the house", "the dog is in the house", "a cat"], ["das Haus", "der Hund ist im Haus", "eine Katze"])
    shares = symptom_shares(text, valid, ["das Haus", "the dog is in the house", "das Haus"])
    assert shares["copied source"] == pytest.approx(1 / 3)
    assert shares["same"] == pytest.approx(1 / 3)
    assert symptom_shares(Sides([], []), valid, list(valid.tgt))["same"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: "▁" + line.replace(" ", " ▁"), "100% of the translations are cut into subwords"),
        (lambda line: line.replace("h", "h@@ "), "Of the references, 0% do."),
        (lambda line: line.encode().decode("cp850"), "of the translations have UTF-8"),
        (lambda line: unicodedata.normalize("NFD", line), "of the translations are not in the Unicode form NFC"),
        (lambda line: line.replace("ä", "&auml;"), "of the translations have HTML tags"),
        (lambda line: f"{line} </s> <pad>", "100% of the translations have HTML tags"),
        (lambda line: f"{line}\u200b", "100% of the translations have invisible"),
        (lambda line: f"HYP 1: {line}", "begin with 'HYP'"),
        (lambda line: f"deu_Latn {line}", "begin with 'deu_Latn'"),
    ],
)
def test_translations_that_are_written_as_no_reference_is(change: Callable[[str], str], said: str) -> None:
    translations = ["Ein Mann fährt Rad.", "Der Hund schläft."] * 10
    references = ["Ein Mann fährt Fahrrad.", "Der Hund schläft."] * 10
    changed = [*map(change, translations)]
    assert not [
        *describe_differences(translations, references),
        *describe_differences(changed, [*map(change, references)]),
    ]
    (difference,) = describe_differences(changed, references)
    assert said in difference
