"""The page of a comparison: every part of the comparison is on it, escaped, and it needs no other file."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from heed.compare import runs
from heed.compare.challenge import Accuracy
from heed.compare.comparison import Comparison, compare
from heed.compare.models import Evidence, WordMap
from heed.evaluation.words import split_words
from heed.report.comparison import render
from tests.compare.sides import make_run, make_test_set

REFERENCES = [f"the {number} dogs saw {number + 7} cats" for number in range(40)]


class Page(HTMLParser):
    """Checks that tags are closed, and collects the visible text."""

    VOID = ("meta", "link", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    test_set = make_test_set(REFERENCES, tags=["<tag>", "other"] * 20)
    broken = ["" if row % 8 == 0 else line[: 3 * row] for row, line in enumerate(REFERENCES)]
    sides = [
        runs.Side("<b>first</b>", [make_run(broken), make_run(REFERENCES[::-1], seed=2)]),
        runs.Side("second", [make_run([line.upper() for line in REFERENCES], params=2000)]),
    ]
    return compare(test_set, sides)


def evidence(comparison: Comparison) -> Evidence:
    maps = []
    for example in comparison.examples:
        words = split_words(example.source), split_words(example.translations[1])
        maps.append(WordMap(*words, np.full((len(words[1]), len(words[0])), 0.5)))
    accuracy = [[{"x": Accuracy(3, 10)}, {"x": Accuracy(5, 10)}], [{"x": Accuracy(9, 10)}]]
    return Evidence("the <set>", accuracy, [None, maps], ["no cross-attention", "layer 1, head 1, output row"])


def test_the_page_has_every_part(comparison: Comparison) -> None:
    html = render(comparison, evidence(comparison))
    text = " ".join(Page(html).text.split())
    assert "<b>first</b>" in text
    for part in (*comparison.verdict, *comparison.warnings, *comparison.signatures.values(), "<tag>", "the <set>"):
        assert part in text
    for example in comparison.examples:
        assert example.source in text
    assert "layer 1, head 1, output row" in text
    assert "40.0 %" in text  # the mean of two runs
    assert html.count('<svg class="map"') == len(comparison.examples) > 0
    assert not re.search(r"<script|https?:|@import|url\(", html)


def test_symptoms_are_listed_by_line(comparison: Comparison) -> None:
    text = Page(render(comparison, evidence(comparison))).text
    assert comparison.sides[0].symptoms["empty"][0] == [1, 9, 17, 25, 33]
    assert "5, 0line" in text.replace("\n", "")
    assert "1, 9, 17, 25, 33" in text


def test_without_models_there_are_no_maps_and_no_challenge(comparison: Comparison) -> None:
    html = render(comparison, Evidence("", [[], []], [None, None], ["", ""]))
    text = Page(html).text
    assert "Contrastive accuracy" not in text
    assert '<svg class="map"' not in html
    assert "Sentences with the largest differences" in text


def test_identical_sides_have_no_differences() -> None:
    sides = [runs.Side(name, [make_run(REFERENCES)]) for name in ("a", "b")]
    comparison = compare(make_test_set(REFERENCES), sides)
    text = Page(render(comparison, Evidence("", [[], []], [None, None], ["", ""]))).text
    assert "a and b are identical" in text
    assert "Differences" not in text
    assert "largest differences" not in text
