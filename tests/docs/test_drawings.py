"""Figures of the results: each number is where it belongs, and the text fits on a phone."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.drawings import KINDS, LETTERS, colours, draw, file_name
from docs.pages import MARKED, ROOT, pages

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [
    match["argument"]
    for page in pages()
    for match in MARKED.finditer(page.read_text(encoding="utf-8"))
    if match["kind"] == "figure"
]


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


def test_the_site_has_the_colours_of_the_pages() -> None:
    style = (ROOT / "src" / "heed" / "report" / "templates" / "style.css").read_text(encoding="utf-8")
    for name in re.findall(r"var\((--[\w-]+)\)", Path(ROOT / "docs" / "stylesheets" / "extra.css").read_text()):
        if name not in ("--serif",):
            assert f"{name}: light-dark" in style
            assert f"{name}: light-dark" in colours()
