"""The page of a study: verdict first, every trial on it, escaped, readable on a desktop and on a phone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heed.report.sweep import (
    Arm,
    Configuration,
    Parameter,
    StudySummary,
    TrialSummary,
    VerdictSummary,
    flat_space,
)
from heed.report.sweep_figures import RESERVED, Scale, ScoreAxis, bends
from heed.report.sweep_page import render
from heed.report.sweep_text import (
    counts,
    format_score,
    format_value,
    headline,
    mean_and_sd,
    progress,
    rough_duration,
    short_names,
    terminal_table,
    trial_label,
)
from tests.report.chromium import measure, needs_chromium
from tests.report.html import Page

PARAMETERS = [
    Parameter("optimizer.lr", log=True),
    Parameter("model.dropout"),
    Parameter("model/positions", choices=("sinusoidal", "<rotary>", "learned")),
    Parameter("model.max_positions"),
    Parameter("model.same"),
]
SPACE = {
    "optimizer.lr": "tag(log, interval(1e-4, 1e-2))",
    "model/positions": "choice(sinusoidal, <rotary>, learned)",
    "model/positions=learned": {"model.max_positions": "range(64, 513)", "x=1": {"y": "choice(a, b)"}},
}


def make_trial(number: int, score: float, *, arm: str = "", state: Any = "complete", **changes: Any) -> TrialSummary:
    params: dict[str, Any] = {
        "optimizer.lr": 10 ** (-4 + number % 9 / 4),
        "model.dropout": 0.1 + number % 7 / 30,
        "model/positions": PARAMETERS[2].choices[number % 3],
        "model.same": 1,
    }
    if number % 3 == 2:
        params["model.max_positions"] = 64 * (1 + number % 5)
    last = 500 if state == "complete" else 150
    return TrialSummary(
        **{
            "number": number,
            "arm": arm,
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


def make_trials(arm: str = "", *, best: float = 38.0) -> list[TrialSummary]:
    trials = [make_trial(number, best - (number - 4) ** 2 / 10, arm=arm) for number in range(15)]
    others = [make_trial(15 + n, 20.0, arm=arm, state=state) for n, state in enumerate(("pruned", "failed", "running"))]
    return trials + others


def make_arm(name: str = "", **changes: Any) -> Arm:
    arm = {
        "n_trials": 40,
        "trials": make_trials(name),
        "space": SPACE,
        "fixed": ["data=multi30k"],
        "command": "python train.py -m sweep=small name=<study>",
        "pruner": "MedianPruner",
        "importances": {"optimizer.lr": 0.7, "model.dropout": 0.3},
        "importance_trials": 15,
        **changes,
    }
    return Arm(name, **arm)


def make_study(arms: Sequence[Arm] | None = None, **changes: Any) -> StudySummary:
    made = StudySummary("<study>", ["valid.bleu"], [True], arms or [make_arm()], PARAMETERS)
    return replace(made, **changes)


def make_verdict(*valid: Sequence[float], arms: Sequence[str] = ("", "", ""), noise: float = 0.25) -> VerdictSummary:
    """A verdict on trials 1, 2, …; the first wins."""
    configurations = [
        Configuration(n, arms[n - 1], 38.0 + n / 100, ["model.dropout=0.1"], [2, 3, 4][: len(scores)], scores)
        for n, scores in enumerate(valid, start=1)
    ]  # fmt: skip
    return VerdictSummary(
        configurations,
        configurations[0],
        noise,
        tests={"": {"test": {"bleu": [35.0, 36.0], "mean": 35.5, "sd": 0.7, "signature": "tok:<13a>"}}},
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
    return make_study([make_arm(trials=trials)], objectives=["valid.bleu", "params"], maximize=[True, False])


def text_of(html: str) -> str:
    """Return the visible text with single spaces; no-break spaces are kept."""
    return re.sub("[ \n]+", " ", Page(html).text)


# ---- the words


def test_a_difference_within_the_noise_is_called_that() -> None:
    close = make_study(verdict=make_verdict([38.0, 38.2, 38.1], [37.9, 38.1, 38.0]))
    first, contrast, noise = headline(close)
    assert first == "Trial 1 wins: valid.bleu 38.10 ± 0.10 over 3 seeds."
    assert contrast == (
        "Its difference from trial 2, +0.10 [−0.47, +0.67], is within the noise over seeds: trial 2 may be as good."
    )
    assert noise == (
        "In the search, the scores of these 2 configurations were within 0.01; "
        "their standard deviation over seeds is 0.25."
    )


def test_a_difference_beyond_the_noise_is_called_that() -> None:
    far = make_study(verdict=make_verdict([38.0, 38.2, 38.1], [36.9, 37.1, 37.0]))
    assert headline(far)[1] == "It is better than trial 2: +1.10 [+0.53, +1.67], beyond the noise over seeds."
    loss = replace(far, maximize=[False])
    assert headline(loss)[1].startswith("It is worse than trial 2: +1.10")


def test_arms_are_compared_with_the_best_of_each_other_arm() -> None:
    arms = ("model=a", "model=a", "model=b")
    found = make_study([make_arm("model=a"), make_arm("model=b")],
                       verdict=make_verdict([38.0, 38.2], [37.9, 38.1], [30.0, 30.2], arms=arms))  # fmt: skip
    sentences = headline(found)
    assert sentences[0].startswith("Trial 1 of model=a wins")
    assert "trial 2 of model=a" in sentences[1]
    assert "better than trial 3 of model=b: +8.00" in sentences[2]


def test_one_seed_says_nothing_about_chance() -> None:
    single = make_study(verdict=make_verdict([38.0], [37.0], noise=0.0))
    sentences = headline(single)
    assert sentences[0] == "Trial 1 wins: valid.bleu 38.00 with one seed."
    assert sentences[1] == "Its difference from trial 2 is +1.00; with one seed each, it may be due to chance."
    assert len(sentences) == 2


def test_untrained_trials_do_not_win() -> None:
    study = make_study([make_arm(trials=[make_trial(0, 0.09)])])
    for found in (study, replace(study, verdict=make_verdict([0.09, 0.1], [0.05, 0.06]))):
        (sentence,) = headline(found)
        assert sentence.startswith("No trial is trained enough to be compared: the best valid.bleu, 0.09")
    assert "is best" in headline(make_study([make_arm(trials=[make_trial(0, 0.09)])], objectives=["valid.loss"]))[0]


def test_headline_of_a_study_without_verdict() -> None:
    assert headline(make_study([make_arm(trials=[])])) == ["No trial has finished yet."]
    failed = make_arm(trials=[make_trial(0, 1.0, state="failed")], n_trials=0)
    assert headline(make_study([failed])) == ["No trial has a score."]
    assert headline(make_study()) == [
        "Trial 4 is best so far: valid.bleu 38.00.",
        "Every score is of one seed: small differences between trials may be chance.",
    ]
    ended = make_arm(trials=[t for t in make_trials() if t.state != "running"], n_trials=16)
    assert headline(make_study([ended]))[0] == "Trial 4 is best: valid.bleu 38.00."
    assert headline(make_study(confirmed=4, confirming=5))[1] == (
        "The best configurations are trained with further seeds: 4 finished, 5 running."
    )
    arms = [make_arm("model=a"), make_arm("model=b", trials=make_trials("model=b", best=39.0))]
    assert headline(make_study(arms))[:2] == [
        "Trial 4 of model=b is best so far: valid.bleu 39.00.",
        "Best of each arm: 38.00 (trial 4 of model=a) and 39.00 (trial 4 of model=b).",
    ]
    assert headline(multiple()) == ["3 trials are on the Pareto front of valid.bleu and params so far."]


def test_progress() -> None:
    study = make_study(seconds_left=5400)
    assert counts(study) == "16 of 40 trials (15 complete, 1 pruned, 1 running), 1 failed"
    assert progress(study) == f"{counts(study)}; about 1.5 h left with 1 worker"
    assert progress(make_study([make_arm(trials=[])])) == "0 of 40 trials; no worker is running"


def test_best_of_an_objective_that_is_minimized() -> None:
    study = make_study([make_arm(trials=[make_trial(0, 2.0), make_trial(1, 1.0), make_trial(2, float("inf"))])],
                       maximize=[False])  # fmt: skip
    assert [trial.number for trial in study.best_trials()] == [1, 0]


def test_trials_in_order_with_all_failures() -> None:
    study = make_study()
    states = [trial.state for trial in study.ordered()]
    assert states == ["complete"] * 15 + ["running", "pruned", "failed"]
    lines = terminal_table(study, top=2)
    assert lines[0].split() == [
        "trial",
        "state",
        "valid.bleu",
        "lr",
        "dropout",
        "positions",
        "steps",
        "minutes",
        "reason",
    ]
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["4", "complete", "38.00"], ["3", "complete", "37.90"], ["16", "failed", "(15.00)"],
    ]  # fmt: skip
    assert lines[3].endswith("The loss is NaN: lower <optimizer.lr>.")
    assert lines[4:] == ["… and 15 more: --top 18"]
    # The option that is the same in all trials is not shown, the one that only some trials have is.
    assert [parameter.name for parameter in study.varying()] == [p.name for p in PARAMETERS[:-1]]
    assert "max_positions" in terminal_table(study, top=18)[0]
    assert len(terminal_table(study, top=18)) == 19


def test_seeds_are_repetitions() -> None:
    trials = [make_trial(0, score) for score in (10.0, 12.0, 14.0)] + [make_trial(1, 20.0), make_trial(1, 21.0)]
    trials = [replace(t, number=n, params={**t.params, "seed": n}) for n, t in enumerate(trials)]
    lone = make_trial(2, 5.0)
    lone = replace(lone, params={**lone.params, "seed": 9})
    study = make_study([make_arm(trials=[*trials, lone])], parameters=[*PARAMETERS, Parameter("seed")])
    best, other = study.seed_groups()
    assert ([t.number for t in other.trials], other.mean, other.sd) == ([0, 1, 2], 12.0, 2.0)
    assert best.mean == 20.5
    page = text_of(render(study))
    assert "Settings over seeds" in page
    assert "12.00 ± 2.00" in page


def test_formats() -> None:
    assert [format_value(value) for value in (None, True, 0.000123456, 3, "a")] == [
        "null",
        "true",
        "0.0001235",
        "3",
        "a",
    ]
    assert [format_score(value) for value in (None, 38.123, 0.012345, 1234567.0, 0.0, float("inf"))] == [
        "", "38.12", "0.0123", "1,234,567", "0.00", "inf",
    ]  # fmt: skip
    assert [mean_and_sd(scores) for scores in ([1.0], [1.0, 2.0])] == ["1.00", "1.50 ± 0.71"]
    assert [rough_duration(seconds) for seconds in (0, 45, 1800, 9000)] == ["1 s", "45 s", "30 min", "2.5 h"]
    assert short_names(["model.dropout", "optimizer.lr", "model/positions"]) == ["dropout", "lr", "positions"]
    assert short_names(["a.x", "b.x"]) == ["a.x", "b.x"]
    assert trial_label(make_trial(3, 1.0, arm="model=rnn")) == "trial 3 of model=rnn"
    assert [*flat_space(SPACE)][2:] == [
        ("model.max_positions", "range(64, 513)", "model/positions=learned"),
        ("y", "choice(a, b)", "model/positions=learned and x=1"),
    ]


# ---- the figures


def test_log_scale_has_powers_at_equal_distances() -> None:
    scale = Scale(PARAMETERS[0], [1e-4, 1e-3, 3e-4, 5e-3, 1e-2], absent=False)
    assert scale(1e-3) == pytest.approx(0.5)
    assert [label for _, label in scale.ticks] == ["0.0001", "0.001", "0.01"]
    linear = Scale(PARAMETERS[1], [1e-4, 1e-3, 3e-4, 5e-3, 1e-2], absent=False)
    assert linear(1e-3) == pytest.approx(9e-4 / 99e-4)


def test_categories_keep_the_order_of_the_space() -> None:
    scale = Scale(PARAMETERS[2], ["learned", "sinusoidal", "learned"], absent=False)
    assert [label for _, label in scale.ticks] == ["sinusoidal", "learned"]
    assert scale("sinusoidal") < scale("learned")


def test_trials_without_an_option_have_a_place_of_their_own() -> None:
    scale = Scale(PARAMETERS[3], [64, 128], absent=True)
    assert scale.ticks[0] == (0.0, "absent")
    assert scale(64) == RESERVED


@pytest.mark.parametrize("values", [[3], [0.0], ["a"], [True, False], [None, 1], [2, "x"]])
def test_scales_of_odd_values(values: list[Any]) -> None:
    scale = Scale(Parameter("x", log=True), values, absent=False)
    assert all(0 <= scale(value) <= 1 for value in values)
    assert scale.ticks


def test_one_diverged_trial_does_not_flatten_the_others() -> None:
    scores = [37.0, 37.5, 38.0, 38.2, 38.4, 0.1]
    axis = ScoreAxis(scores, maximize=True, height=100)
    assert axis(37.0) - axis(38.4) > 30
    assert axis.is_outside(0.1)
    assert not any(axis.is_outside(score) for score in scores[:-1])
    loss = ScoreAxis([-score for score in scores], maximize=False, height=100)
    assert loss.is_outside(-0.1)
    # A good outlier is what the search is for.
    assert not ScoreAxis([*scores, 90.0], maximize=True, height=100).is_outside(90.0)


def test_paths_go_through_the_points() -> None:
    assert bends([(0, 1), (10, 5)]) == "M0 1C5.0 1 5.0 5 10 5"


@pytest.mark.parametrize(
    ("complete", "arms", "highlighted"),
    [(4, 1, "The best one is highlighted"), (9, 1, "The best 3 are highlighted"), (99, 1, "The best 5 are highlighted"),
     (4, 2, "The best one of each arm is highlighted"), (50, 2, "The best 3 of each arm are highlighted")],
)  # fmt: skip
def test_few_of_the_trials_are_highlighted(complete: int, arms: int, highlighted: str) -> None:
    def trials(arm: str) -> list[TrialSummary]:
        return [make_trial(number, 1.0 + number, arm=arm) for number in range(complete)]

    html = render(
        make_study([make_arm(f"arm{n}" * (arms > 1), trials=trials(f"arm{n}" * (arms > 1))) for n in range(arms)])
    )
    page = Page(html)
    assert page.text.count(highlighted) == 2
    strong = len([curve for curve in page.find("g") if "best" in curve.classes])
    assert strong == int(highlighted.split()[2].replace("one", "1")) * arms


# ---- the page


def test_page_of_a_verdict() -> None:
    study = make_study(verdict=make_verdict([38.0, 38.2, 38.1], [37.9, 38.1, 38.0]))
    html = render(study)
    page, text = Page(html), text_of(html)
    assert page.find("h1")[0].text == headline(study)[0]
    titles = [element.text for element in page.find("h2")]
    assert titles == ["The winner", "Best trials", "Importances", "Option by option", "Settings together",
                      "Learning curves", "Failed trials", "All trials", "How it was searched"]  # fmt: skip
    for part in (*headline(study), progress(study), "python train.py experiment=small seed=2", "35.50\u00a0±\u00a00.71",
                 "tok:<13a>", "search 38.02", "model.dropout=0.1", "The loss is NaN: lower <optimizer.lr>.", "folder16",
                 "tag(log, interval(1e-4, 1e-2))", "only if", "MedianPruner", "data=multi30k", "15 complete trials",
                 "python train.py -m sweep=small name=<study>", "70 %"):  # fmt: skip
        assert part in text, part
    assert [link.attributes["href"] for link in page.find("a")] == ["compare.html"]
    assert not re.search(r"<script|https?:|@import|url\(", html)


def test_configurations_whose_runs_failed_are_on_the_page() -> None:
    verdict = make_verdict([38.0, 38.2, 38.1], [37.9], [])
    first, second, third = verdict.configurations
    second = replace(second, found=None, failed=["seed 3: NaN."])
    third = replace(third, failed=["seed 2: Out of memory."])
    configurations = [first, second, third]
    text = text_of(
        render(make_study(verdict=replace(verdict, configurations=configurations, winner=configurations[0])))
    )
    assert "failed: seed 3: NaN." in text
    assert "failed: seed 2: Out of memory." in text
    assert "search 38.01" in text
    assert "search 38.02" not in text


def test_every_trial_is_on_the_page() -> None:
    html = render(make_study())
    (table,) = [
        element for element in Page(html).find(css_class="scroll") if element.attributes["aria-label"] == "All trials"
    ]
    headings = [child.text for child in table.children if child.attributes.get("scope") == "row"]
    assert sorted(map(int, headings)) == [*range(18)]
    page = Page(html)
    # A curve for each trial, a cross for the pruned one, beside the one in the legend.
    assert len(page.find("g")) == 18
    assert html.count('d="M-4 -4L4 4M-4 4L4 -4"') == 2
    # Complete and pruned trials in each slice, but only those that have the option.
    counts = [figure.text.count("complete") for figure in page.find("figure")]
    assert counts == [15, 15, 15, 5]
    assert all("pruned" in figure.text for figure in page.find("figure")[:3])


def test_arms_have_colours_and_importances_of_their_own() -> None:
    html = render(make_study([make_arm("model=rnn"), make_arm("model=transformer")]))
    page = Page(html)
    legends = [[item.text for item in legend.children] for legend in page.find("ul", "legend")]
    assert legends[0] == ["model=rnn", "model=transformer"]
    assert {"model=rnn: 15 complete trials", "model=transformer: 15 complete trials"} <= {
        h.text for h in page.find("h3")
    }
    assert {*page.find("g")[0].classes} & {"side-0", "side-1"}
    assert "The best 3 of each arm are highlighted" in page.text
    # The command is the same for both.
    assert page.text.count("name=<study>") == 1


def test_page_of_several_objectives() -> None:
    study = multiple()
    page = Page(render(study))
    assert "Pareto front" in [h.text for h in page.find("h2")]
    assert len([dot for dot in page.find("circle") if "front" in dot.classes]) == len(study.pareto_front()) == 3
    assert len([dot for dot in page.find("circle") if "dominated" in dot.classes]) == 9
    assert "smaller is better" in page.text
    assert [h.text for h in page.find("h3")].count("params") == 1


@pytest.mark.parametrize("trials", [[], *([make_trial(0, 30.0, state=state)] for state in
                                          ("running", "failed", "pruned", "waiting", "complete"))])  # fmt: skip
def test_page_of_a_study_that_has_just_begun(trials: list[TrialSummary]) -> None:
    study = make_study([make_arm(trials=trials, importances={})], verdict=None)
    titles = [element.text for element in Page(render(study)).find("h2")]
    assert ("Best trials" in titles) == any(trial.state == "complete" for trial in trials)
    assert ("Failed trials" in titles) == any(trial.state == "failed" for trial in trials)
    assert "Importances" not in titles
    bare = replace(study, arms=[make_arm(trials=[replace(t, params={}, curve=(), seconds=None) for t in trials])])
    Page(render(bare))


def pages() -> dict[str, StudySummary]:
    verdict = make_verdict([38.0, 38.2, 38.1], [37.9, 38.1, 38.0], arms=("model=transformer_base", "model=rnn"))
    return {
        "verdict": make_study([make_arm("model=rnn"), make_arm("model=transformer_base")], verdict=verdict),
        "pareto": multiple(),
    }


@needs_chromium
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["verdict", "pareto"])
def test_page_is_readable(name: str, width: int, tmp_path: Path) -> None:
    html = render(pages()[name]).replace("<details>", "<details open>")
    found = measure(html, tmp_path, width=width)
    assert found["errors"] == []
    assert (found["width"], found["overflow"]) == (width, 0)
    assert found["texts"] > 100
    assert found["smallest"] >= 11
    assert found["unfocusable"] == []
    assert found["without_hint"] == []
    if width == 390:
        assert "Parallel coordinates" in found["scrolls"]
