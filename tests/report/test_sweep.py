"""The page of a study: verdict first, every trial on it, escaped, readable on a desktop and on a phone."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heed.report.sweep import Configuration, Parameter, StudySummary, TrialSummary, Verdict
from heed.report.sweep_page import _limits, learning_curves, parameter_panels, render
from heed.report.sweep_text import (
    format_objective,
    format_setting,
    headline,
    mean_and_sd,
    progress,
    study_lines,
    trial_table,
)
from tests.report.chromium import measure, needs_chromium
from tests.report.html import Page

PARAMETERS = [
    Parameter("optimizer.lr", log=True),
    Parameter("model.dropout"),
    Parameter("model/positions", choices=("sinusoidal", "<rotary>", "learned")),
    Parameter("model.max_positions"),
]


def make_trial(number: int, score: float, *, state: Any = "complete", **changes: Any) -> TrialSummary:
    params: dict[str, Any] = {
        "optimizer.lr": 10 ** (-4 + number % 9 / 4),
        "model.dropout": 0.1 + number % 7 / 30,
        "model/positions": PARAMETERS[2].choices[number % 3],
    }
    if number % 3 == 2:
        params["model.max_positions"] = 64 * (1 + number % 5)
    last = 500 if state == "complete" else 150
    return TrialSummary(
        **{
            "number": number,
            "state": state,
            "values": (score,) if state in ("complete", "pruned") else (),
            "params": params,
            "curve": tuple((step, score * step / (step + 50)) for step in range(50, last + 1, 50)),
            "seconds": 600.0,
            "folder": f"folder{number}",
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
        "objectives": ["valid.bleu"],
        "maximize": [True],
        "n_trials": 40,
        "trials": make_trials() if trials is None else trials,
        "parameters": PARAMETERS,
        "is_searching": True,
        "space": "optimizer.lr: tag(log, interval(1e-4, 1e-2))",
        "pruner": "MedianPruner",
        **changes,
    }
    return StudySummary(**study)


def make_verdict(*valid: Sequence[float], noise: float | None = 0.25) -> Verdict:
    """A verdict on trials 1, 2, …; the first wins."""
    configurations = [
        Configuration(n, 38.0 + n / 100, ["model.dropout=0.1"], [2, 3, 4][: len(scores)], scores)
        for n, scores in enumerate(valid, start=1)
    ]
    return Verdict(
        configurations,
        winner=1,
        noise=noise,
        tests={"test": {"bleu": [35.0, 36.0], "signature": "tok:<13a>"}},
        experiment="conf/experiment/small.yaml",
        rerun="python train.py experiment=small seed=2",
        compare="compare.html",
    )


def multiple() -> StudySummary:
    """A study of two objectives."""
    trials = [
        make_trial(number, 0.0, values=(38.0 - (number - 4) ** 2 / 10, 1e6 * (1 + (number * 5) % 7)))
        for number in range(12)
    ]
    objectives = ["valid.bleu", "params"]
    return make_study(trials, objectives=objectives, maximize=[True, False], front=[4, 3, 0])


def text_of(html: str) -> str:
    """Return the visible text with single spaces; no-break spaces are kept."""
    return re.sub("[ \n]+", " ", Page(html).text)


# ---- the words


def test_a_difference_within_the_noise_is_called_that() -> None:
    close = make_study(verdict=make_verdict([38.0, 38.2, 38.1], [37.9, 38.1, 38.0]))
    first, contrast = headline(close)
    assert first == "Trial 1 wins: valid.bleu 38.10 ± 0.10 over 3 seeds."
    assert contrast == (
        "Its difference from trial 2, +0.10 [−0.47, +0.67], is within the noise over seeds: trial 2 may be as good."
    )


@pytest.mark.parametrize(("seeds", "quantile"), [(3, 2.78), (9, 2.12), (10, 2.10), (16, 2.04), (500, 1.96)])
def test_intervals_use_the_t_distribution(seeds: int, quantile: float) -> None:
    verdict = make_verdict([38.0] * seeds, [37.9] * seeds, noise=1.0)
    long = [replace(one, valid=[one.valid[0]] * seeds) for one in verdict.configurations]
    verdict = replace(verdict, configurations=long)
    value, interval = verdict.difference(verdict.configurations[1])
    assert interval is not None
    assert (interval[1] - value) / (2 / seeds) ** 0.5 == pytest.approx(quantile, abs=0.01)


def test_a_difference_beyond_the_noise_is_called_that() -> None:
    far = make_study(verdict=make_verdict([38.0, 38.2, 38.1], [36.9, 37.1, 37.0]))
    assert headline(far)[1] == "It is better than trial 2: +1.10 [+0.53, +1.67], beyond the noise over seeds."
    loss = replace(far, maximize=[False])
    assert headline(loss)[1].startswith("It is worse than trial 2: +1.10")


def test_one_seed_says_nothing_about_chance() -> None:
    single = make_study(verdict=make_verdict([38.0], [37.0], noise=None))
    sentences = headline(single)
    assert sentences[0] == "Trial 1 wins: valid.bleu 38.00 with one seed."
    assert sentences[1] == "Its difference from trial 2 is +1.00; with one seed each, it may be due to chance."
    assert len(sentences) == 2


def test_untrained_trials_do_not_win() -> None:
    study = make_study([make_trial(0, 0.09)])
    for found in (study, replace(study, verdict=make_verdict([0.09, 0.1], [0.05, 0.06]))):
        (sentence,) = headline(found)
        assert sentence.startswith("No trial is trained enough to be compared: the best valid.bleu, 0.09")
        page = text_of(render(found))
        assert page.count(sentence) == 2  # the title and the heading
        assert "winner" not in page.lower()
        assert "experiment=small" not in page
        assert not [line for line in study_lines(found, top=9) if "winner" in line]
    assert "is best" in headline(make_study([make_trial(0, 0.09)], objectives=["valid.loss"]))[0]


def test_headline_of_a_study_without_verdict() -> None:
    assert headline(make_study([])) == ["No trial has finished yet."]
    failed = make_study([make_trial(0, 1.0, state="failed")], is_searching=False)
    assert headline(failed) == ["No trial has a score."]
    assert headline(make_study()) == [
        "Trial 4 is best so far: valid.bleu 38.00.",
        "Every score is of one seed: small differences between trials may be chance.",
    ]
    assert headline(make_study(is_searching=False))[0] == "Trial 4 is best: valid.bleu 38.00."
    assert headline(make_study(confirmed=4, confirming=5))[1] == (
        "The best configurations are trained with further seeds: 4 finished, 5 running."
    )
    assert headline(multiple()) == ["3 trials are on the Pareto front of valid.bleu and params so far."]


def test_progress() -> None:
    counts = "16 of 40 trials (15 complete, 1 pruned, 1 running), 1 failed"
    assert progress(make_study()) == counts
    assert progress(make_study([])) == "0 of 40 trials; no worker is running"


def test_best_of_an_objective_that_is_minimized() -> None:
    trials = [make_trial(0, 2.0), make_trial(1, 1.0), make_trial(2, float("inf"))]
    study = make_study(trials, maximize=[False])
    assert [trial.number for trial in study.best_trials()] == [1, 0]


def test_trials_in_order_with_all_failures() -> None:
    study = make_study()
    states = [trial.state for trial in study.ordered()]
    assert states == ["complete"] * 15 + ["running", "pruned", "failed"]
    lines = study_lines(study, top=2)
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == [
        "trial", "state", "valid.bleu", "lr", "dropout", "positions", "steps", "minutes", "reason",
    ]  # fmt: skip
    assert [line.split()[:3] for line in table[1:4]] == [
        ["4", "complete", "38.00"], ["3", "complete", "37.90"], ["16", "failed", "(15.00)"],
    ]  # fmt: skip
    assert table[3].endswith("The loss is NaN: lower <optimizer.lr>.")
    assert table[4:] == ["… and 15 more: --top 18"]
    # An option that only some trials have has a column.
    assert "max_positions" in trial_table(study, study.trials)[0]
    assert len(trial_table(study, study.trials)) == 19


def test_options_with_the_same_last_part_have_their_whole_names() -> None:
    trials = [make_trial(0, 1.0, params={"a.x": 1, "b.x": 2, "c/y": 3})]
    study = make_study(trials, parameters=[Parameter("a.x"), Parameter("b.x"), Parameter("c/y")])
    assert trial_table(study, trials)[0][3:6] == ["a.x", "b.x", "y"]


def test_formats() -> None:
    assert [format_setting(value) for value in (None, True, 0.000123456, 3, "a")] == [
        "null", "true", "0.0001235", "3", "a",
    ]  # fmt: skip
    assert [format_objective(value) for value in (None, 38.123, 0.012345, 1234567.0, 0.0, float("inf"))] == [
        "", "38.12", "0.0123", "1,234,567", "0.00", "inf",
    ]  # fmt: skip
    assert [mean_and_sd(scores) for scores in ([1.0], [1.0, 2.0])] == ["1.00", "1.50 ± 0.71"]


# ---- the figures


def test_figures_have_a_mark_for_each_trial() -> None:
    found = learning_curves(make_study())
    assert (found["objective"], len(found["curves"])) == ("valid.bleu", 18)
    assert {curve["state"] for curve in found["curves"]} == {"complete", "pruned", "failed", "running"}
    assert [curve["faint"] for curve in found["curves"]].count(False) == 5
    assert found["curves"][-1]["name"] == "trial 4", "the best trial is drawn last"
    # Complete and pruned trials in each panel, but only those that have the option.
    panels = parameter_panels(make_study())
    assert [panel["name"] for panel in panels] == [parameter.name for parameter in PARAMETERS]
    assert [len(panel["points"]) for panel in panels] == [16, 16, 16, 5]
    assert [panel["log"] for panel in panels] == [True, False, False, False]
    assert panels[2]["choices"][1] == "<rotary>"
    worst = panels[0]["limits"][0]
    assert {point["y"] for point in panels[0]["points"] if point["state"] == "pruned"} == {worst}


def test_the_figure_of_several_objectives() -> None:
    panels = parameter_panels(multiple())
    assert [panel["name"] for panel in panels[:3]] == ["params", "optimizer.lr", "model.dropout"]
    assert [point["faint"] for point in panels[0]["points"]].count(False) == 3


@pytest.mark.parametrize("value", [0.0, 3, "a", True, None, float("nan")])
def test_figures_of_odd_values(value: Any) -> None:
    choices = () if isinstance(value, float | int) else (format_setting(value),)
    trials = [make_trial(0, 1.0, params={"x": value}), make_trial(1, 1.0, params={"x": value})]
    panels = parameter_panels(make_study(trials, parameters=[Parameter("x", choices=choices)]))
    assert [panel["name"] for panel in panels] == ([] if value != value else ["x"])
    json.dumps(panels, allow_nan=False)


def test_one_diverged_trial_does_not_flatten_the_others() -> None:
    scores = [37.0, 37.5, 38.0, 38.2, 38.4, 0.1]
    low, high = _limits(scores, maximize=True)
    assert 36.5 < low < 37.0
    assert 38.4 < high < 39
    assert _limits([-score for score in scores], maximize=False) == (pytest.approx(-high), pytest.approx(-low))
    # A good outlier is what the search is for.
    assert _limits([*scores, 90.0], maximize=True)[1] > 90.0


# ---- the page


def test_page_of_a_verdict() -> None:
    study = make_study(verdict=make_verdict([38.0, 38.2, 38.1], [37.9, 38.1, 38.0]))
    html = render(study)
    page, text = Page(html), text_of(html)
    assert page.find("h1")[0].text == headline(study)[0]
    titles = [element.text for element in page.find("h2")]
    assert titles == ["The winner", "Learning curves", "Options", "Trials", "How it was searched"]
    for part in (*headline(study), progress(study), "python train.py experiment=small seed=2", "35.50 ± 0.71",
                 "tok:<13a>", "38.02", "+0.10 [−0.47, +0.67]", "model.dropout=0.1",
                 "The loss is NaN: lower <optimizer.lr>.", "tag(log, interval(1e-4, 1e-2))",
                 "MedianPruner"):  # fmt: skip
        assert part in text, part
    assert [link.attributes["href"] for link in page.find("a")] == ["compare.html"]
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", html)


def test_configurations_whose_runs_failed_are_on_the_page() -> None:
    verdict = make_verdict([38.0, 38.2, 38.1], [37.9], [])
    first, second, third = verdict.configurations
    second = replace(second, failed=["seed 3: NaN."])
    third = replace(third, failed=["seed 2: Out of memory."])
    text = text_of(render(make_study(verdict=replace(verdict, configurations=[first, second, third]))))
    assert "failed" in text
    assert "seed 3: NaN." in text
    assert "seed 2: Out of memory." in text
    assert "38.02" in text


def test_every_trial_is_on_the_page() -> None:
    page = Page(render(make_study()))
    (table,) = [element for element in page.find(css_class="scroll") if element.attributes["aria-label"] == "Trials"]
    headings = [child.text for child in table.children if child.attributes.get("scope") == "row"]
    assert sorted(map(int, headings)) == [*range(18)]


@pytest.mark.parametrize("trials", [[], *([make_trial(0, 30.0, state=state)] for state in
                                          ("running", "failed", "pruned", "waiting", "complete"))])  # fmt: skip
def test_page_of_a_study_that_has_just_begun(trials: list[TrialSummary]) -> None:
    study = make_study(trials, verdict=None)
    titles = [element.text for element in Page(render(study)).find("h2")]
    assert ("Options" in titles) == any(trial.state == "complete" for trial in trials)
    assert ("Learning curves" in titles) == ("Trials" in titles) == bool(trials)
    Page(render(make_study([replace(t, params={}, curve=(), seconds=None) for t in trials])))


def pages() -> dict[str, StudySummary]:
    verdict = make_verdict([38.0, 38.2, 38.1], [37.9, 38.1, 38.0])
    return {"verdict": make_study(verdict=verdict), "pareto": multiple()}


@needs_chromium
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["verdict", "pareto"])
def test_page_is_readable(name: str, width: int, tmp_path: Path) -> None:
    found = measure(render(pages()[name]), tmp_path, width=width)
    assert found["errors"] == []
    assert (found["width"], found["overflow"]) == (width, 0)
    assert found["texts"] > 100
    assert found["smallest"] >= 11
    assert found["unfocusable"] == []
    assert found["without_hint"] == []
    if width == 390:
        assert "Trials" in found["scrolls"]


TICKS = """
<script>setTimeout(() => {
  const charts = [...document.querySelectorAll("svg.chart")].map(chart => {
    const lines = [...chart.querySelectorAll(".grid")], [top, bottom] = [Math.min, Math.max].map(most =>
      most(...lines.map(line => +line.getAttribute("y1"))));
    const labels = [...chart.querySelectorAll(".tick.middle")].slice(0, -1).map(tick => +tick.getAttribute("x"));
    const marks = [...chart.querySelectorAll(".mark")].map(mark =>
      mark.getAttribute("transform").match(/[\\d.]+/g).map(Number));
    const [left, right] = [Math.min(...labels) - 30, Math.max(...labels) + 30];
    const outside = marks.filter(([x, y]) => y < top - .1 || y > bottom + .1 || x < left || x > right).length;
    return { ticks: Math.min(lines.length, labels.length), marks: marks.length, outside };
  });
  parent.postMessage(JSON.stringify({ charts }), "*");
}, 400);</script></body>"""


@needs_chromium
@pytest.mark.browser
def test_ticks_enclose_all_points(tmp_path: Path) -> None:
    rates = (0.0031, 0.0047, 0.0123)
    trials = [make_trial(n, 38.3 - n, params={"optimizer.lr": rate, "model.dropout": 0.13 + 0.1 * n})
              for n, rate in enumerate(rates)]  # fmt: skip
    found = measure(render(make_study(trials)), tmp_path, width=1280, script=TICKS)["charts"]
    assert len(found) == 3
    assert all(chart["marks"] == 3 and chart["outside"] == 0 and chart["ticks"] >= 2 for chart in found), found
