"""SVG figures: valid XML, marks inside the axis, and one cell for each weight."""

from xml.etree import ElementTree

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heed.plot.svg import LABELS_WIDTH, VALUES_WIDTH, WIDTH, Mark, Row, dot_plot, heat_map

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(values=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted), min_size=1, max_size=5))
def test_all_marks_are_inside_the_axis(values: list[list[float]]) -> None:
    rows = [Row(f"row {n}", [Mark(m, (low, high), "both", "x")]) for n, (low, m, high) in enumerate(values)]
    figure = ElementTree.fromstring(dot_plot(rows, name="a", line=0))
    dots = [float(circle.attrib["cx"]) for circle in figure.iter("circle")]
    assert len(dots) == len(values)
    assert all(LABELS_WIDTH <= dot <= WIDTH - VALUES_WIDTH for dot in dots)
    # Larger values are further right.
    assert [x for _, x in sorted(zip((m for _, m, _ in values), dots, strict=True))] == sorted(dots)


def test_labels_are_escaped() -> None:
    figure = dot_plot([Row("<b>", [Mark(1, None, "both", "&", [2])], "<i>")], name='"<')
    texts = [text.text for text in ElementTree.fromstring(figure).iter("text")]
    assert {"<b>", "<i>", "&"} <= {*texts}


def test_a_heat_map_has_a_cell_for_each_weight_that_is_not_negligible() -> None:
    weights = np.array([[0.9, 0.02, 0.08], [0.0, 1.0, 0.0]])
    figure = ElementTree.fromstring(heat_map(["x", "<y>"], ["a", "b", "c"], weights, name="a"))
    cells = [(cell.attrib["fill-opacity"], cell.findtext("title")) for cell in figure.iter("rect")]
    assert cells == [("0.90", "x → a 0.90"), ("0.08", "x → c 0.08"), ("1.00", "<y> → b 1.00")]


def test_an_empty_heat_map_is_valid() -> None:
    ElementTree.fromstring(heat_map([], [], np.zeros((0, 0)), name="a"))
