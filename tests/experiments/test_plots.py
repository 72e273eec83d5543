"""Figures of the experiments' pages."""

import re
from itertools import pairwise

from experiments.plots import BOTTOM, HEIGHT, Line, _spread_out, histogram, line_plot
from hypothesis import given
from hypothesis import strategies as st


def test_line_plot_escapes_names_and_stays_inside() -> None:
    plot = line_plot([Line("a & b", [(1, 10), (10, 1000)])], name="n", x="x", y="y", log_x=True, log_y=True)
    assert "a &amp; b" in plot
    numbers = [float(number) for path in re.findall(r'd="([^"]*)"', plot) for number in re.findall(r"[\d.]+", path)]
    assert all(0 <= number <= 812 for number in numbers)


def test_histogram_has_a_bar_for_each_bin() -> None:
    assert histogram([0.5, 0.5, -0.2], name="n", x="x").count("<rect") == 40


@given(st.lists(st.floats(-50, 400), min_size=1, max_size=8))
def test_labels_of_lines_do_not_overlap(positions: list[float]) -> None:
    moved = sorted(_spread_out(positions, 15))
    assert all(below - above >= 14.8 for above, below in pairwise(moved))
    assert moved[-1] <= HEIGHT - BOTTOM
