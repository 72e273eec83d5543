"""The page of a study: verdict first, every trial on it, escaped."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from heed.report.sweep import (
    StudySummary,
    TrialSummary,
    Verdict,
    format_objective,
    format_setting,
    headline,
    learning_curves,
    mean_and_sd,
    progress,
    study_lines,
    study_page,
    trial_table,
)
from tests.report.html import Page

POSITIONS = ("sinusoidal", "<rotary>", "learned")


def make_trial(number: int, score: float, *, state: Any = "complete", **changes: Any) -> TrialSummary:
    params: dict[str, Any] = {"optimizer.lr": 10 ** (-4 + number % 9 / 4), "model/positions": POSITIONS[number % 3]}
    if number % 3 == 2:
        params["model.max_positions"] = 64 * (1 + number % 5)
    last = 500 if state == "complete" else 150
    return TrialSummary(
        **{
            "number": number,
            "state": state,
            "value": score if state in ("complete", "pruned") else math.nan,
            "params": params,
            "curve": tuple((step, score * step / (step + 50)) for step in range(50, last + 1, 50)),
            "seconds": 600.0,
            "folder": f"folder{number}",
            "overrides": ["model.dropout=0.1"],
            "reason": "The loss is NaN: lower <optimizer.lr>." if state == "failed" else "",
            **changes,
        }
    )


def make_trials() -> list[TrialSummary]:
    trials = [make_trial(number, 38.0 - (number - 4) ** 2 / 10) for number in range(15)]
    others = [make_trial(15 + n, 20.0, state=state) for n, state in enumerate(("pruned", "failed", "running"))]
    return trials + others


def make_study(trials: Sequence[TrialSummary] | None = None, **changes: Any) -> StudySummary:
    study = {
        "name": "<study>",
        "objective": "valid.bleu",
        "maximize": True,
        "n_trials": 40,
        "trials": make_trials() if trials is None else trials,
        "parameters": ["optimizer.lr", "model/positions", "model.max_positions"],
        "is_searching": True,
        "space": "optimizer.lr: tag(log, interval(1e-4, 1e-2))",
        "pruner": "MedianPruner",
        **changes,
    }
    return StudySummary(**study)


def confirmed(scores: Mapping[int, Sequence[float]], trials: Sequence[TrialSummary] | None = None) -> StudySummary:
    """A study with a verdict on trials with other seeds; the first one wins."""
    runs = [
        make_trial(100, score, confirms=(number, seed), folder=f"confirm/{number}_seed{seed}")
        for number, valid in scores.items()
        for seed, score in enumerate(valid, start=2)
    ]
    verdict = Verdict(
        winner=next(iter(scores)),
        runs=[run.folder for run in runs],
        comparison=["Trial 1 is <better> than trial 2."],
        tests={"test": {"bleu": [35.0, 36.0], "signature": "tok:<13a>"}},
        experiment="conf/experiment/small.yaml",
        rerun="python train.py experiment=small seed=2",
    )
    return make_study(trials, confirmations=runs, verdict=verdict, is_searching=False)


def text_of(html: str) -> str:
    """Return the visible text with single spaces; no-break spaces are kept."""
    return re.sub("[ \n]+", " ", Page(html).text)


# ---- the words


def test_headline_of_a_verdict() -> None:
    wins, comparison = headline(confirmed({1: [38.0, 38.2, 38.1], 2: [37.9]}))
    assert wins == "Trial 1 wins: valid.bleu 38.10 ± 0.10 over 3 seeds."
    assert comparison == "Trial 1 is <better> than trial 2."
    assert headline(confirmed({1: [38.0]}))[0] == "Trial 1 wins: valid.bleu 38.00 with one seed."


def test_untrained_trials_do_not_win() -> None:
    trials = [make_trial(0, 0.09)]
    for found in (make_study(trials), confirmed({0: [0.09, 0.1]}, trials)):
        (sentence,) = [line for line in headline(found) if not line.startswith("The best configurations")]
        assert sentence.startswith("No trial is trained enough to be compared: the best valid.bleu, 0.09")
        page = text_of(study_page(found))
        assert page.count(sentence) == 2, "in the title and the heading"
        assert "winner" not in page.lower()
        assert "experiment=small" not in page
        assert not [line for line in study_lines(found, top=9) if "winner" in line]
    assert "is best" in headline(make_study(trials, objective="valid.loss"))[0]


def test_headline_of_a_study_without_verdict() -> None:
    assert headline(make_study([])) == ["No trial has finished yet."]
    failed = make_study([make_trial(0, 1.0, state="failed")], is_searching=False)
    assert headline(failed) == ["No trial has a score."]
    assert headline(make_study()) == [
        "Trial 4 is best so far: valid.bleu 38.00.",
        "Every score is of one seed: small differences between trials may be chance.",
    ]
    assert headline(make_study(is_searching=False))[0] == "Trial 4 is best: valid.bleu 38.00."
    confirmations = [make_trial(20, 1.0, state=state, confirms=(4, 2)) for state in ("complete", "running", "waiting")]
    assert headline(make_study(confirmations=confirmations))[1] == (
        "The best configurations are trained with further seeds: 1 finished, 2 running."
    )


def test_progress() -> None:
    assert progress(make_study()) == "16 of 40 trials (15 complete, 1 pruned, 1 running), 1 failed"
    assert progress(make_study([])) == "0 of 40 trials; no worker is running"


def test_best_of_an_objective_that_is_minimized() -> None:
    trials = [make_trial(0, 2.0), make_trial(1, 1.0), make_trial(2, float("inf"))]
    study = make_study(trials, maximize=False)
    assert [trial.number for trial in study.best_trials()] == [1, 0]


def test_trials_in_order_with_all_failures() -> None:
    study = make_study()
    states = [trial.state for trial in study.ordered()]
    assert states == ["complete"] * 15 + ["running", "pruned", "failed"]
    lines = study_lines(study, top=2)
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["trial", "state", "valid.bleu", "lr", "positions", "steps", "minutes", "reason"]
    assert [line.split()[:3] for line in table[1:4]] == [
        ["4", "complete", "38.00"], ["3", "complete", "37.90"], ["16", "failed", "(15.00)"],
    ]  # fmt: skip
    assert table[3].endswith("The loss is NaN: lower <optimizer.lr>.")
    assert table[4:] == ["… and 15 more: --top 18"]
    head, rows = trial_table(study, study.trials)
    assert "max_positions" in head, "an option that only some trials have has a column"
    assert len(rows) == 18


def test_options_with_the_same_last_part_have_their_whole_names() -> None:
    trials = [make_trial(0, 1.0, params={"a.x": 1, "b.x": 2, "c/y": 3})]
    head, _ = trial_table(make_study(trials, parameters=["a.x", "b.x", "c/y"]), trials)
    assert head[3:6] == ["a.x", "b.x", "y"]


def test_formats() -> None:
    assert [format_setting(value) for value in (None, True, 0.000123456, 3, "a")] == [
        "null", "true", "0.0001235", "3", "a",
    ]  # fmt: skip
    assert [format_objective(value) for value in (None, 38.123, 0.012345, 1234567.0, 0.0, float("inf"))] == [
        "", "38.12", "0.0123", "1,234,567", "0.00", "inf",
    ]  # fmt: skip
    assert [mean_and_sd(scores) for scores in ([1.0], [1.0, 2.0])] == ["1.00", "1.50 ± 0.71"]


# ---- the page


def test_the_best_trials_have_curves() -> None:
    curves = learning_curves(make_study())
    assert [curve["name"] for curve in curves] == [f"trial {number}" for number in (4, 3, 5, 2, 6, 1)]
    assert [curve["side"] for curve in curves] == [*range(6)]
    assert curves[0]["steps"] == tuple(range(50, 501, 50))
    assert learning_curves(make_study([make_trial(0, 1.0, curve=())])) == []


def test_page_of_a_verdict() -> None:
    study = confirmed({1: [38.0, 38.2, 38.1], 2: [37.9, 38.1, 38.0]})
    html = study_page(study)
    page, text = Page(html), text_of(html)
    assert page.find("h1")[0].text == headline(study)[0]
    titles = [element.text for element in page.find("h2")]
    assert titles == ["The winner", "Learning curves", "Trials", "How it was searched"]
    for part in (*headline(study), progress(study), "python train.py experiment=small seed=2", "35.50 ± 0.71",
                 "tok:<13a>", "38.10 ± 0.10", "38.00, 38.20, 38.10", "model.dropout=0.1",
                 "The loss is NaN: lower <optimizer.lr>.", "tag(log, interval(1e-4, 1e-2))",
                 "MedianPruner"):  # fmt: skip
        assert part in text, part
    assert [link.attributes["href"] for link in page.find("a")] == ["compare/index.html"]
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", html)


def test_configurations_whose_runs_failed_are_on_the_page() -> None:
    study = confirmed({1: [38.0, 38.2], 2: [37.9]})
    failed = {"state": "failed", "reason": "Out of memory."}
    lost = [make_trial(30, 1.0, confirms=(n, 5), folder=f"confirm/{n}_seed5", **failed) for n in (2, 3)]
    text = text_of(study_page(replace(study, confirmations=[*study.confirmations, *lost])))
    assert "confirm/2_seed5: Out of memory." in text
    assert "confirm/3_seed5: Out of memory." in text


def test_every_trial_is_on_the_page() -> None:
    page = Page(study_page(make_study()))
    (table,) = [element for element in page.find(css_class="scroll") if element.attributes["aria-label"] == "Trials"]
    headings = [child.text for child in table.children if child.attributes.get("scope") == "row"]
    assert sorted(map(int, headings)) == [*range(18)]


@pytest.mark.parametrize("state", [None, "running", "failed", "pruned", "waiting", "complete"])
def test_page_of_a_study_that_has_just_begun(state: str | None) -> None:
    trials = [] if state is None else [make_trial(0, 30.0, state=state)]
    titles = [element.text for element in Page(study_page(make_study(trials))).find("h2")]
    assert ("Learning curves" in titles) == ("Trials" in titles) == bool(trials)
    Page(study_page(make_study([replace(t, params={}, curve=(), seconds=None) for t in trials])))
