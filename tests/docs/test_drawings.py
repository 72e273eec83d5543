"""Figures of the results: each number is where it belongs, and the text fits on a phone."""

import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.drawings import END, KINDS, LETTERS, START, Drawing, Scale, colours, draw, ends, file_name, markdown
from docs.pages import MARKED, ROOT, pages

from docs.figures import load

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [
    match["argument"]
    for page in pages()
    for match in MARKED.finditer(page.read_text(encoding="utf-8"))
    if match["kind"] == "figure"
]


def test_a_scale_maps_values_to_per_cent() -> None:
    assert [Scale(0, 10)(value) for value in (0, 5, 10)] == [START, (START + END) / 2, END]
    assert Scale(0.5, 2, is_log=True)(1) == (START + END) / 2
    assert Scale(0.4, 3.5, is_log=True).ticks() == [0.5, 0.75, 1, 1.5, 2, 3]
    assert Scale(36, 44).ticks() == [36, 38, 40, 42, 44]
    assert Scale(-0.1, 1.1).ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, (3, 3)),
        ({"median": 2, "low": 1, "high": 4}, (1, 4)),
        ({"mean": Decimal("42.5"), "sd": Decimal("0.1")}, (Decimal("42.4"), Decimal("42.6"))),
    ],
)
def test_the_range_of_a_measurement(value: object, expected: tuple[object, object]) -> None:
    assert ends(value) == expected


def marks(svg: ElementTree.Element, series: int) -> list[float]:
    return [float(mark.attrib["x"][:-1]) for mark in svg.iter(f"{SVG}svg") if mark.get("class") == f"side-{series}"]


def test_ratios_are_drawn_at_their_values_and_ranges() -> None:
    svg = ElementTree.fromstring(draw("ratios training_speed columns=torch,marian").svg())
    rows = load("training_speed")["rows"].values()
    ratios = [float(row["torch"]["median"]) for row in rows]
    drawn = marks(svg, 0)[1:]  # without that of the legend
    assert len(drawn) == len(ratios)
    assert [drawn.index(x) for x in sorted(drawn)] == [ratios.index(ratio) for ratio in sorted(ratios)]
    reference = next(line for line in svg.iter(f"{SVG}line") if line.get("class") == "reference")
    assert float(reference.attrib["x1"][:-1]) < min(drawn)
    ranges = [line for line in svg.iter(f"{SVG}line") if line.get("class", "").startswith("range side-0")]
    for line, x in zip(ranges, drawn, strict=True):
        assert float(line.attrib["x1"][:-1]) <= x <= float(line.attrib["x2"][:-1])
    assert len(marks(svg, 1)[1:]) == sum(row["marian"] is not None for row in rows)


def test_a_change_for_the_worse_has_another_mark() -> None:
    svg = ElementTree.fromstring(draw("changes multi30k_ablations columns=change,bleu").svg())
    scores = [row["bleu"] for row in load("multi30k_ablations")["rows"].values()]
    assert len(marks(svg, 1)) == sum(score < scores[0] for score in scores)
    assert len(marks(svg, 0)) == sum(score >= scores[0] for score in scores)


def test_claims_that_hold_are_counted_and_marked() -> None:
    drawing = draw("held claims")
    held = [row["held"] for row in load("claims")["rows"].values()]
    svg = ElementTree.fromstring(drawing.svg())
    assert drawing.alt == f"{sum(held)} of {len(held)} claims hold."
    assert len(marks(svg, 0)[1:]) == sum(held)


@pytest.mark.parametrize("argument", FIGURES)
def test_lines_follow_each_other_inside_the_figure(argument: str) -> None:
    svg = ElementTree.fromstring(draw(argument).svg())
    texts = [text for text in svg.iter(f"{SVG}text") if text.get("class") in ("", "soft")]
    assert all(len(text.text or "") <= LETTERS for text in texts)
    heights = [float(text.attrib["y"]) for text in texts]
    assert all(above < below for above, below in pairwise(heights))
    assert heights[-1] < float(svg.attrib["height"])


def test_every_kind_of_figure_is_used() -> None:
    assert {argument.split()[0] for argument in FIGURES} == {*KINDS}
    names = [file_name(argument) for argument in dict.fromkeys(FIGURES)]
    assert len(names) == len({*names}), "two figures of one file"


def test_the_image_is_as_high_as_the_drawing() -> None:
    text = markdown("held claims")
    height = ElementTree.fromstring(draw("held claims").svg()).attrib["height"]
    assert f'height="{height}"' in text
    assert (ROOT / "docs" / text.split('"')[1]).exists()


def test_text_is_escaped_and_wrapped() -> None:
    drawing = Drawing("a")
    drawing.paragraph("a < b " + "word " * 20)
    svg = ElementTree.fromstring(drawing.svg())
    lines = [text.text or "" for text in svg.iter(f"{SVG}text")]
    assert " ".join(lines) == "a < b " + " ".join(["word"] * 20)
    assert len(lines) == 3


def test_the_site_has_the_colours_of_the_pages() -> None:
    style = (ROOT / "src" / "heed" / "report" / "templates" / "style.css").read_text(encoding="utf-8")
    for name in re.findall(r"var\((--[\w-]+)\)", Path(ROOT / "docs" / "stylesheets" / "extra.css").read_text()):
        if name not in ("--serif",):
            assert f"{name}: light-dark" in style
            assert f"{name}: light-dark" in colours()
