"""Figures of a hyperparameter study as inline SVG.

As in `heed.report.figures`, positions are in per cent across and in pixels down, so that a figure fits a phone while
its text keeps its size.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

from markupsafe import Markup

from heed.report.figures import Axis, format_tick
from heed.report.pages import render, side_class
from heed.report.sweep import Arm, Parameter, StudySummary, TrialSummary, Value
from heed.report.sweep_text import format_score, format_value, trial_label

HEIGHT, TOP = 300, 10
"""Pixels: the height of a large plot without its labels, and the space above it."""
SMALL_HEIGHT = 150
"""Pixels: the height of a slice."""
WHISKER = 2.5
"""Scores more than this many interquartile ranges below the lower quartile are drawn at the edge of a plot."""
HIGHLIGHTED, HIGHLIGHTED_PER_ARM = 5, 3
"""The largest number of trials in full colour: in a study with one arm, and for each of several arms."""
ABSENT, PRUNED = "absent", "pruned"
"""Labels on an axis for trials without the option, and for trials without a final score."""
RESERVED = 0.12
"""Fraction of an axis that is reserved for such trials."""
STRIP = 32
"""Pixels: the height of the strip for pruned trials below a slice."""

Tick = tuple[float, str]
"""Position and label."""


@dataclass(frozen=True)
class Point:
    """A trial in a plot: ``x`` in per cent, ``y`` in pixels."""

    x: float
    y: float
    style: str
    title: str
    at_edge: bool = False
    """Whether the value is outside the plot."""


@dataclass(frozen=True)
class Curve:
    """The reports of a trial: points of x in per cent and y in pixels, and how the trial ended."""

    points: Sequence[tuple[float, float]]
    style: str
    title: str
    state: str


@dataclass(frozen=True)
class Slice:
    """A scatter plot of one parameter and the first objective."""

    name: str
    points: Sequence[Point]
    ticks: Sequence[Tick]
    is_log: bool


@dataclass(frozen=True)
class ParallelAxis:
    """An axis of parallel coordinates at ``x`` per cent."""

    name: str
    x: float
    ticks: Sequence[Tick]


class Scale:
    """Positions of the values of a parameter between 0 and 1.

    Numbers are on a linear or logarithmic scale, other values at equal distances. Trials without the parameter are
    placed before the first value.
    """

    def __init__(self, parameter: Parameter, values: Sequence[Value], *, absent: bool, max_ticks: int = 4) -> None:
        self.parameter = parameter
        numbers = [value for value in values if _is_number(value)]
        self.start = RESERVED if absent else 0.0
        self.labels: list[str] = []
        self.is_log = parameter.log and all(value > 0 for value in numbers)
        if parameter.choices or len(numbers) < len(values) or not numbers:
            texts = {format_value(value) for value in values}
            known = [choice for choice in parameter.choices if choice in texts]
            self.labels = known + sorted(texts - {*known})
            self.ticks = [(self(label), label) for label in self.labels]
        else:
            low, high = min(numbers), max(numbers)
            self.low, self.high = self._scaled(low), self._scaled(high)
            self.ticks = [(self(tick), _tick_label(tick)) for tick in self._number_ticks(numbers, max_ticks)]
        if absent:
            self.ticks = [(0.0, ABSENT), *self.ticks]

    def __call__(self, value: Value) -> float:
        """Return the position of a value that exists."""
        if self.labels:
            text = value if isinstance(value, str) else format_value(value)
            fraction = (self.labels.index(text) + 0.5) / len(self.labels)
        elif self.high > self.low and isinstance(value, float | int):
            fraction = (self._scaled(float(value)) - self.low) / (self.high - self.low)
        else:
            fraction = 0.5
        return self.start + fraction * (1 - self.start)

    def _number_ticks(self, numbers: Sequence[float], most: int) -> Sequence[float]:
        """Return ticks in the range of the numbers: the numbers themselves if they are few."""
        distinct = sorted(set(numbers))
        if len(distinct) <= most:
            return distinct
        low, high = distinct[0], distinct[-1]
        ticks = _log_ticks(low, high, most - 1) if self.is_log else Axis(numbers, max_ticks=most + 2).ticks
        return [tick for tick in ticks if low <= tick <= high][:most] or [low, high]

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


class ScoreAxis:
    """Maps scores to pixels from the top; scores far worse than the others are moved to the edge."""

    def __init__(self, scores: Sequence[float], *, maximize: bool, height: float, max_ticks: int = 6) -> None:
        kept = _without_outliers(scores, maximize=maximize)
        self.axis = Axis(kept, length=height, max_ticks=max_ticks)
        self.height = height
        self.ticks: list[Tick] = [(self(tick), _tick_label(tick)) for tick in self.axis.ticks]

    def __call__(self, score: float) -> float:
        low, high = self.axis.ticks[0], self.axis.ticks[-1]
        return round(TOP + self.height - self.axis(min(max(score, low), high)), 1)

    def is_outside(self, score: float) -> bool:
        return not self.axis.ticks[0] <= score <= self.axis.ticks[-1]


def bars(arm: Arm, *, style: str, name: str) -> Markup:
    """Draw the importances of an arm as horizontal bars.

    Args:
        style: CSS class that sets the colour.
        name: description of the figure for screen readers.
    """
    largest = max(arm.importances.values())
    rows = [
        {"name": option, "width": round(100 * value / (largest or 1), 2), "text": f"{100 * value:.0f} %"}
        for option, value in arm.importances.items()
    ]
    return render("sweep_bars.html.j2", rows=rows, style=style, name=name)


def slices(study: StudySummary, objective: int = 0) -> Markup:
    """Draw an objective by each parameter, one small plot each. Pruned trials, without a final score, are below."""
    complete = study.best_trials()
    if not complete:
        return Markup("")
    pruned = [trial for trial in study.trials if trial.state == "pruned"]
    scores = [trial.values[objective] for trial in complete]
    up = ScoreAxis(scores, maximize=study.maximize[objective], height=SMALL_HEIGHT, max_ticks=4)
    strip = TOP + SMALL_HEIGHT + 0.6 * STRIP
    found = []
    for parameter in study.varying():
        # Better trials are drawn later, on top.
        having = [trial for trial in [*pruned, *reversed(complete)] if parameter.name in trial.params]
        if not having:
            continue
        scale = Scale(parameter, [trial.params[parameter.name] for trial in having], absent=False, max_ticks=4)
        points = []
        for trial in having:
            x = round(100 * scale(trial.params[parameter.name]) + _jitter(scale, trial), 2)
            score = trial.values[objective] if trial.state == "complete" else None
            y = strip if score is None else up(score)
            is_outside = score is not None and up.is_outside(score)
            points.append(Point(x, y, f"{_style(study, trial)} {trial.state}", _title(study, trial), is_outside))
        ticks = [(round(100 * x, 2), label) for x, label in scale.ticks]
        found.append(Slice(parameter.name, points, ticks, scale.is_log))
    return render(
        "sweep_slices.html.j2",
        slices=found,
        objective=study.objectives[objective],
        up=up,
        strip=strip if pruned else None,
        bottom=TOP + SMALL_HEIGHT + (STRIP if pruned else 0),
    )


def parallel_coordinates(study: StudySummary) -> Markup:
    """Draw each trial as a line through its values: one axis for each parameter, the last one for the objective."""
    complete, parameters = study.best_trials(), study.varying()
    pruned = [trial for trial in study.trials if trial.state == "pruned"]
    # The best are drawn last, on top.
    trials = [*pruned, *reversed(complete)]
    if not complete or len(trials) < 2 or not parameters:
        return Markup("")
    count = len(parameters) + 1
    xs = [round(100 * (place + 0.5) / count, 2) for place in range(count)]
    scales = []
    for parameter in parameters:
        values = [trial.params[parameter.name] for trial in trials if parameter.name in trial.params]
        scales.append(Scale(parameter, values, absent=len(values) < len(trials)))
    height = HEIGHT * (1 - RESERVED) if pruned else HEIGHT
    up = ScoreAxis([trial.values[0] for trial in complete], maximize=study.maximize[0], height=height)

    def down(position: float) -> float:
        return round(TOP + HEIGHT * (1 - position), 1)

    axes = [
        ParallelAxis(parameter.name, x, [(down(position), label) for position, label in scale.ticks])
        for parameter, scale, x in zip(parameters, scales, xs[:-1], strict=True)
    ]
    axes.append(ParallelAxis(study.objectives[0], xs[-1], [*up.ticks, *([(down(0), PRUNED)] if pruned else [])]))
    highlighted = _highlighted(study)
    lines = []
    for trial in trials:
        points = [
            (x, down(scale(trial.params[parameter.name]) if parameter.name in trial.params else 0.0))
            for parameter, scale, x in zip(parameters, scales, xs[:-1], strict=True)
        ]
        points.append((xs[-1], up(trial.values[0]) if trial.state == "complete" else down(0)))
        style = _style(study, trial) + (" best" if id(trial) in highlighted else "")
        lines.append(Curve(points, style, _title(study, trial), trial.state))
    return render("sweep_parallel.html.j2", axes=axes, lines=lines, top=TOP, height=HEIGHT, bends=bends)


def bends(points: Sequence[tuple[float, float]]) -> str:
    """Return an SVG path through points that leaves and reaches every axis horizontally."""
    path = f"M{points[0][0]} {points[0][1]}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = round((x0 + x1) / 2, 2)
        path += f"C{middle} {y0} {middle} {y1} {x1} {y1}"
    return path


def learning_curves(study: StudySummary) -> Markup:
    """Draw the objective by optimizer step of each trial, with the end of the trial marked by its state."""
    trials = [trial for trial in study.trials if trial.curve]
    if not trials:
        return Markup("")
    steps = [step for trial in trials for step, _ in trial.curve]
    across = Axis([0, *steps], max_ticks=6)
    up = ScoreAxis([score for trial in trials for _, score in trial.curve], maximize=study.maximize[0], height=HEIGHT)
    highlighted = _highlighted(study)
    curves = [
        Curve(
            [(across(step), up(score)) for step, score in trial.curve],
            _style(study, trial) + (" best" if id(trial) in highlighted else ""),
            _title(study, trial),
            trial.state,
        )
        for trial in sorted(trials, key=lambda trial: id(trial) in highlighted)
    ]
    return render(
        "sweep_curves.html.j2",
        curves=curves,
        across=[(across(tick), f"{tick:,.0f}") for tick in across.ticks],
        up=up,
        objective=study.objectives[0],
        height=HEIGHT,
        top=TOP,
        states=[
            state for state in ("complete", "pruned", "failed", "running") if any(c.state == state for c in curves)
        ],
    )


def pareto_plot(study: StudySummary, other: int) -> Markup:
    """Draw two objectives against each other, the first upwards; the trials on the front are filled.

    Args:
        other: the objective of the horizontal axis.
    """
    trials = [trial for trial in study.best_trials() if len(trial.values) == len(study.objectives)]
    across = Axis([trial.values[other] for trial in trials], max_ticks=6)
    up = ScoreAxis([trial.values[0] for trial in trials], maximize=study.maximize[0], height=HEIGHT)
    front = study.pareto_front()
    ids = {id(trial) for trial in front}
    points = [
        Point(
            across(trial.values[other]),
            up(trial.values[0]),
            f"{_style(study, trial)} {'front' if id(trial) in ids else 'dominated'}",
            _title(study, trial),
            up.is_outside(trial.values[0]),
        )
        for trial in sorted(trials, key=lambda trial: id(trial) in ids)
    ]
    # With more than two objectives, the front is no line in the plane of two of them.
    path = sorted((across(trial.values[other]), up(trial.values[0])) for trial in front)
    return render(
        "sweep_front.html.j2",
        points=points,
        path=path if len(study.objectives) == 2 else [],
        across=[(across(tick), _tick_label(tick)) for tick in across.ticks],
        up=up,
        names=(study.objectives[0], study.objectives[other]),
        directions=["larger is better" if study.maximize[i] else "smaller is better" for i in (0, other)],
        height=HEIGHT,
        top=TOP,
    )


def arm_class(study: StudySummary, arm: str) -> str:
    """Return the CSS class with the colour of an arm."""
    return side_class(study.arm_names.index(arm)) if arm in study.arm_names else side_class(0)


def highlighted_count(study: StudySummary) -> int:
    """Return how many trials of each arm are highlighted: of few, only the best one."""
    most = HIGHLIGHTED if len(study.arms) == 1 else HIGHLIGHTED_PER_ARM
    return max(min(most, study.count("complete") // len(study.arms) // 3), 1)


def _highlighted(study: StudySummary) -> set[int]:
    """Return the ids of the best trials of each arm."""
    best = study.best_trials()
    count = highlighted_count(study)
    by_arm = ([trial for trial in best if trial.arm == arm] for arm in study.arm_names)
    return {id(trial) for trials in by_arm for trial in trials[:count]}


def _jitter(scale: Scale, trial: TrialSummary) -> float:
    """Return a shift that keeps trials with the same category apart, in per cent of the width."""
    if not scale.labels:
        return 0.0
    # The golden ratio spreads consecutive numbers evenly.
    return ((trial.number * 0.618034) % 1 - 0.5) * 40 / len(scale.labels)


def _style(study: StudySummary, trial: TrialSummary) -> str:
    return arm_class(study, trial.arm)


def _title(study: StudySummary, trial: TrialSummary) -> str:
    """Return the text that a pointer shows."""
    scores = [f"{name} {format_score(value)}" for name, value in zip(study.objectives, trial.values, strict=False)]
    if not scores and trial.score is not None:
        scores = [f"{study.objectives[0]} {format_score(trial.score)}"]
    settings = [f"{name}={format_value(value)}" for name, value in trial.params.items()]
    return "\n".join([f"{trial_label(trial)}, {trial.state}", *scores, *settings])


def _without_outliers(scores: Sequence[float], *, maximize: bool) -> list[float]:
    """Return the scores without those far on the worse side: one diverged trial must not flatten all others."""
    if len(scores) < 4:
        return list(scores)
    lower, _, upper = statistics.quantiles(scores, n=4)
    reach = WHISKER * (upper - lower)
    kept = [score for score in scores if (score >= lower - reach if maximize else score <= upper + reach)]
    return kept or list(scores)


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most ``most`` values 1, 2 or 5 times a power of ten in the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        ticks = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if 2 <= len(ticks) <= most:
            return ticks
    return [low, high]


def _tick_label(value: float) -> str:
    """Return the label of a tick: 3 M rather than 3e+06."""
    for least, size, unit in ((1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k"), (0, 1, "")):
        if abs(value) >= least:
            return format_tick(float(f"{value / size:.4g}")) + unit
    return str(value)


def _is_number(value: Value) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
