"""Figures of the claims' page: curves and histograms by matplotlib, and marks and tables of `heed.report.figures`."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments.measures import Values
from heed.comparison.challenge import Accuracy
from heed.evaluation.significance import wilson
from heed.report import figures
from heed.report.figures import Mark
from heed.report.pages import render_template, side_class

TEMPLATES = Path(__file__).with_name("templates")
WIDTH, HEIGHT = 8.4, 3.6
"""Inches."""

VARIABLES = ("ink", "soft", "rule", *(f"side-{number}" for number in range(6)))
"""Colours of the style sheet. matplotlib draws the nth as #0000nn, which `svg` replaces: the page has two themes."""
INK, SOFT, RULE, *SIDES = (f"#{number:06x}" for number in range(len(VARIABLES)))
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "heed", "text.parse_math": False, "font.size": 9.5, "text.color": INK,
    "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.facecolor": "none", "figure.facecolor": "none",
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": SOFT, "axes.labelcolor": SOFT,
    "xtick.color": SOFT, "ytick.color": SOFT, "axes.grid": True, "grid.color": RULE, "lines.linewidth": 1.2,
    "lines.markersize": 5,
}  # fmt: skip


def line_plot(
    lines: Mapping[str, Mapping[Any, float | Values]],
    *,
    name: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
) -> Markup:
    """Draw lines on common axes.

    Args:
        lines: by label, y for each x. Of `Values` the line joins the means, and dots show single values.
        name: description for screen readers.
        x, y: labels of the axes.
    """
    with rc_context(STYLE):
        figure = Figure((WIDTH, HEIGHT), layout="constrained")
        axes = figure.subplots(subplot_kw={"xlabel": x, "title": y})
        for (label, points), color in zip(lines.items(), cycle(SIDES), strict=False):
            means = [value.mean if isinstance(value, Values) else value for value in points.values()]
            axes.plot(list(points), means, color=color, label=label)
            for at, value in points.items():
                if isinstance(value, Values):
                    axes.plot([at] * len(value.values), value.values, "o", color=color, alpha=0.5, markersize=3)
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter("")
        axes.legend(frameon=False)
        return inline(figure, name)


def inline(figure: Figure, name: str) -> Markup:
    """Return a figure for the page, in a region that scrolls on small screens.

    Args:
        name: description for screen readers.
    """
    return render_template("figure.html.j2", folder=TEMPLATES, figure=svg(figure, name), name=name)


def number_table(numbers: Mapping[str, Any]) -> Markup:
    """Return a table of all numbers of a finding."""
    return figures.table(["measured", "value"], list(_rows(numbers)), name="All numbers")


def _rows(value: Any, *path: str) -> Iterator[list[str]]:
    value = vars(value) if is_dataclass(value) else value.tolist() if isinstance(value, np.ndarray) else value
    parts: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, Sequence) and not all(isinstance(part, float | int | str) for part in value):
        parts = enumerate(value, start=1)
    else:
        yield [", ".join(path), _text(value)]
        return
    for key, part in parts:
        yield from _rows(part, *path, str(key))


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float | Values) else str(value)


def accuracy_mark(found: Sequence[Accuracy], number: int) -> Mark:
    """The mark of a `dot_plot` for contrastive accuracies of several seeds, with Wilson's 95 % interval, in percent.

    Args:
        number: the mark's index in its row, which selects its colour.
    """
    right, total = sum(a.right for a in found), sum(a.total for a in found)
    low, high = wilson(right, total)
    share = 100 * right / total
    return Mark(share, (100 * low, 100 * high), side_class(number), f"{share:.1f} %", [100 * a.fraction for a in found])


def caption(text: str) -> Markup:
    """Return the title of the figure that follows."""
    return Markup("<h3>{}</h3>").format(text)


def svg(figure: Figure, name: str) -> Markup:
    """Return a figure as an element of the page, in the colours of its style sheet."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    body = re.sub(r' xmlns(:xlink)?="[^"]*"', "", file.getvalue().partition("<svg")[2])
    body = re.sub("#0000([0-9a-f]{2})", lambda found: f"var(--{VARIABLES[int(found[1], 16)]})", body)
    return Markup(f'<svg role="img" aria-label="{escape(name)}"{body}')
