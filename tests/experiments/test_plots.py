"""Figures of the experiments' pages."""

from itertools import pairwise
from xml.etree import ElementTree

from experiments.plots import BOTTOM, HEIGHT, LINE_GAP, Line, _spread_out, histogram, line_plot
from hypothesis import given
from hypothesis import strategies as st


def test_line_plot_escapes_names_and_stays_inside() -> None:
    line = Line("a & b", [(1, 10), (10, 1000)], others=[(5, 30)])
    plot = ElementTree.fromstring(line_plot([line], name="n", x="x", y="", log_x=True, log_y=True))
    assert "a & b" in "".join(plot.itertext())
    (curve,) = [path.attrib["d"] for path in plot.iter("path")]
    points = [tuple(map(float, point.split())) for point in curve.removeprefix("M").split("L")]
    points += [(float(dot.attrib["cx"].removesuffix("%")), float(dot.attrib["cy"])) for dot in plot.iter("circle")]
    assert len(points) == 3
    assert all(0 <= x <= 100 and 0 <= y <= HEIGHT - BOTTOM for x, y in points)
    # The smallest value is at the left, at the bottom.
    assert points[0] == (0, HEIGHT - BOTTOM) or points[0][1] > points[1][1]


def test_histogram_has_a_bar_for_each_bin() -> None:
    plot = ElementTree.fromstring(histogram([0.5, 0.5, -0.2], name="n", x="x"))
    bars = [float(bar.attrib["height"]) for bar in plot.iter("rect")]
    assert len(bars) == 40
    assert [bar > 0 for bar in bars].count(True) == 2
    assert "mean +0.27" in "".join(plot.itertext())


@given(st.lists(st.floats(-50, 400), min_size=1, max_size=8))
def test_labels_of_lines_do_not_overlap(positions: list[float]) -> None:
    moved = sorted(_spread_out(positions, LINE_GAP))
    assert all(below - above >= LINE_GAP - 0.2 for above, below in pairwise(moved))
    assert moved[-1] <= HEIGHT - BOTTOM
