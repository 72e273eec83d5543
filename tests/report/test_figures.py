"""Figures: valid XML, marks inside the axis, one cell for each weight, and text in place of missing values."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.report.figures import FigureRow, Mark, _ticks, dot_plot, heat_map, table
from tests.report.html import Page

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(values=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted), min_size=1, max_size=5))
def test_all_marks_are_inside_the_axis(values: list[list[float]]) -> None:
    rows = [FigureRow(f"row {n}", [Mark(m, (low, high), "both", "x")]) for n, (low, m, high) in enumerate(values)]
    figure = ElementTree.fromstring(dot_plot(rows, name="a", line=0))
    dots = [float(circle.attrib["cx"].removesuffix("%")) for circle in figure.iter("circle")]
    assert len(dots) == len(values)
    assert all(0 <= dot <= 100 for dot in dots)
    # Larger values are further right.
    assert [x for _, x in sorted(zip((m for _, m, _ in values), dots, strict=True))] == sorted(dots)


@given(values=st.lists(NUMBERS, min_size=1, max_size=5))
def test_ticks_enclose_the_values(values: list[float]) -> None:
    ticks = _ticks(values)
    assert 2 <= len(ticks) <= 10
    assert ticks == sorted({*ticks})
    rounding = 2e-9 * (ticks[1] - ticks[0])  # a tick that rounding moved is not followed by another one
    assert ticks[0] <= min(values) + rounding
    assert ticks[-1] >= max(values) - rounding


def test_equal_values_have_an_axis() -> None:
    assert _ticks([50.0, 50.0]) == pytest.approx([50.0, 50.2, 50.4, 50.6, 50.8, 51.0])


def test_labels_are_escaped() -> None:
    figure = dot_plot([FigureRow("<b>", [Mark(1, None, "both", "&", [2])], "<i>")], name='"<')
    texts = [text.strip() for text in ElementTree.fromstring(figure).itertext()]
    assert {"<b>", "<i>", "&"} <= {*texts}


def test_a_row_without_marks_says_why() -> None:
    rows = [FigureRow("a", [Mark(1, None, "both", "1")]), FigureRow("b", [], "2 sentences: too few")]
    page = Page(dot_plot(rows, name="x"))
    assert "2 sentences: too few" in page.text
    assert len(page.find("circle")) == 1
    alone = Page(dot_plot(rows[1:], name="x"))
    assert alone.find("svg") == []


def test_a_heat_map_has_a_cell_for_each_weight_that_is_not_negligible() -> None:
    weights = np.array([[0.9, 0.02, 0.08], [0.0, 1.0, 0.0]])
    figure = ElementTree.fromstring(heat_map(["x", "<y>"], ["a", "b", "c"], weights, name="a"))
    cells = [
        (cell.attrib["fill-opacity"], cell.findtext("title"))
        for cell in figure.iter("rect")
        if "fill-opacity" in cell.attrib
    ]
    assert cells == [("0.95", "x → a 0.90"), ("0.28", "x → c 0.08"), ("1.00", "<y> → b 1.00")]


def test_an_empty_heat_map_is_valid() -> None:
    ElementTree.fromstring(heat_map([], [], np.zeros((0, 0)), name="a"))


def test_wide_letters_get_more_space() -> None:
    def width(label: str) -> int:
        figure = ElementTree.fromstring(heat_map([label], ["a"], np.ones((1, 1)), name="a"))
        return next(int(svg.attrib["width"]) for svg in figure.iter("svg"))

    assert width("猫猫猫猫") > width("cats") + 20


@pytest.mark.parametrize(
    "html",
    [table(["", "a<b"], [["row", "1"]], name='"'), heat_map(["x"], ["y"], np.ones((1, 1)), name='"')],
    ids=["table", "heat map"],
)
def test_wide_content_scrolls_in_a_region_for_the_keyboard(html: str) -> None:
    (region,) = Page(html).find(css_class="scroll")
    assert region.attributes["tabindex"] == "0"
    assert region.attributes["role"] == "region"
    assert region.attributes["aria-label"] == '"'
    assert "scroll sideways" in region.text
