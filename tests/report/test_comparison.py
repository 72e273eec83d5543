"""The page of a comparison: every part of the comparison is on it, escaped, and it needs no other file."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heed.comparison import runs
from heed.comparison.challenge import Accuracy, Evidence, WordMap
from heed.comparison.comparison import MIN_BUCKET_SENTENCES, Comparison, compare
from heed.evaluation.words import split_words
from heed.report.comparison import comparison_page
from tests.comparison.sides import make_run, make_test_set
from tests.report.html import Page
from tests.report.runs import make_run as make_folder

REFERENCES = [f"the {number} dogs saw {number + 7} cats" for number in range(40)]


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
    html = comparison_page(comparison, evidence(comparison))
    text = " ".join(Page(html).text.split())
    assert "<b>first</b>" in text
    for part in (*comparison.verdict, *comparison.warnings, *comparison.signatures.values(), "<tag>", "the <set>"):
        assert part in text
    for example in comparison.examples:
        assert example.source in text
    assert "layer 1, head 1, output row" in text
    assert "40.0 %" in text  # the mean of two runs
    assert 0 < html.count('<svg class="map"') == sum(bool(example.translations[1]) for example in comparison.examples)
    assert not re.search(r"<script src|https?:(?!//www.w3.org/2000/svg)|@import|url\(", html)


def test_learning_curves_are_those_of_the_runs(comparison: Comparison, tmp_path: Path) -> None:
    first, second = comparison.sides
    folders = [str(make_folder(tmp_path / "1")), str(tmp_path / "copy without metrics")]
    sides = [replace(first, runs=folders), replace(second, runs=[str(make_folder(tmp_path / "2", steps=40))])]
    html = comparison_page(replace(comparison, sides=sides), evidence(comparison))
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    charts = {chart["title"]: chart["curves"] for chart in data["charts"]}
    assert [curve["name"] for curve in charts["BLEU"]] == ["<b>first</b>", "second"]
    assert [curve["steps"] for curve in charts["Validation loss"]] == [[20, 40, 60], [20, 40]]
    assert charts["Training loss"][1]["values"][-1] == 2
    assert charts["BLEU"][0]["clock"][1][-1] == 6000
    panels = data["heads"][0]["panels"]
    assert [(panel["layer"], panel["head"]) for panel in panels] == [(1, 1), (1, 2)]
    assert [(curve["side"], curve["steps"]) for curve in panels[1]["curves"]] == [(0, [20, 40, 60]), (1, [20, 40])]


def test_symptoms_are_counted_for_each_run(comparison: Comparison) -> None:
    text = Page(comparison_page(comparison, evidence(comparison))).text
    assert comparison.sides[0].symptoms["empty"][0] == [1, 9, 17, 25, 33]
    assert "5, 0" in text


def test_without_models_there_are_no_maps_and_no_challenge(comparison: Comparison) -> None:
    html = comparison_page(comparison, Evidence("", [[], []], [None, None], ["", ""]))
    text = Page(html).text
    assert "Contrastive accuracy" not in text
    assert '<svg class="map"' not in html
    assert "Sentences with the largest differences" in text


def test_identical_sides_have_no_differences() -> None:
    sides = [runs.Side(name, [make_run(REFERENCES)]) for name in ("a", "b")]
    comparison = compare(make_test_set(REFERENCES), sides)
    text = Page(comparison_page(comparison, Evidence("", [[], []], [None, None], ["", ""]))).text
    assert "a and b are identical" in text
    assert "Differences" not in text
    assert "largest differences" not in text


def make_comparison(*translations: list[str], tags: list[str] | None = None) -> Comparison:
    """Compare a run of each list of translations."""
    sides = [runs.Side(f"side {number}", [make_run(lines)]) for number, lines in enumerate(translations)]
    return compare(make_test_set(REFERENCES, tags=tags), sides)


NO_EVIDENCE = Evidence("", [[], []], [None, None], ["", ""])


def test_small_buckets_are_text() -> None:
    tags = ["rare"] * (MIN_BUCKET_SENTENCES - 1) + ["common"] * (40 - MIN_BUCKET_SENTENCES + 1)
    comparison = make_comparison(REFERENCES, [line.upper() for line in REFERENCES], tags=tags)
    page = Page(comparison_page(comparison, NO_EVIDENCE))
    rows = {
        row.text.split()[0]: row for row in page.find(css_class="row") if row.text.split()[:1] in (["rare"], ["common"])
    }
    assert "19 sentences: too few to score" in " ".join(rows["rare"].text.split())
    assert not [child for child in rows["rare"].children if child.tag in ("svg", "circle")]
    assert [child.tag for child in rows["common"].children].count("circle") == 2
    assert "fewer than 20 sentences are not scored" in page.text


def test_the_verdict_on_two_untrained_models_says_so_first() -> None:
    page = Page(comparison_page(make_comparison(["x"] * 40, ["y y y y y"] * 40), NO_EVIDENCE))
    (heading,) = page.find("h1")
    assert heading.text.startswith("Both models are not trained enough (10 and 10 steps): neither side ")
    assert "is better than" not in heading.text
    assert "+0.0" not in page.text
    assert "p <" not in page.text


def test_scroll_regions_can_be_focused(comparison: Comparison) -> None:
    regions = Page(comparison_page(comparison, evidence(comparison))).find(css_class="scroll")
    assert len(regions) > 4
    labels = [region.attributes["aria-label"] for region in regions]
    assert len({*labels}) == len(labels)
    assert all(region.attributes["tabindex"] == "0" and region.attributes["role"] == "region" for region in regions)


def test_the_page_loads_nothing(comparison: Comparison) -> None:
    page = Page(comparison_page(comparison, evidence(comparison)))
    policy = next(e.attributes["content"] for e in page.find("meta") if "http-equiv" in e.attributes)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'"
    assert not [script for script in page.find("script") if "src" in script.attributes]
    assert [e.attributes["href"] for e in page.find("link")] == ["data:,"]
