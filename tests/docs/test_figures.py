"""Numbers and tables from docs/results: how they are written, and that every file says where they come from."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from docs.pages import ROOT, fill, pages
from experiments.claims import CLAIMS

from docs import figures

FILES = sorted((ROOT / "docs" / "results").glob("*.json"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.50"), "1.50"),
        (12000, "12,000"),
        (None, ""),
        ("text", "text"),
        ([82, 84], "82, 84"),
        ({"mean": Decimal("42.5"), "sd": Decimal("0.1")}, "42.5 ± 0.1"),
        ({"median": Decimal("1.53"), "low": Decimal("1.50"), "high": Decimal("1.79")}, "1.53 [1.50, 1.79]"),
        ({"difference": Decimal("0.19"), "low": Decimal("-0.04"), "high": Decimal("0.06")}, "+0.19 [−0.04, +0.06]"),
        ({"difference": Decimal("-0.5")}, "−0.5"),
        ({"low": 117, "high": 145}, "117 to 145"),
        ({"value": 90, "unit": "%"}, "90 %"),
        ({"list": [51, 67], "unit": "%"}, "51, 67 %"),
    ],
)
def test_show(value: Any, text: str) -> None:
    assert figures.show(value) == text


def test_a_table_has_the_chosen_rows_and_columns() -> None:
    assert figures.table("training rows=synthetic_rnn,synthetic columns=steps,model").splitlines() == [
        "| steps | model |",
        "| ---: | --- |",
        "| 3,600 | RNN, built-in corpus, five seeds |",
        "| 3,000 | transformer, built-in corpus, five seeds |",
    ]


def test_parts_between_markers_are_written_anew() -> None:
    text = (
        "The beam is <!-- value: training.beam -->4<!-- end -->.\n\n"
        "<!-- table: published columns=bleu -->\nold\n<!-- end -->\n"
    )
    assert fill(text) == (
        "The beam is <!-- value: training.beam -->5<!-- end -->.\n\n"
        "<!-- table: published columns=bleu -->\n\n| BLEU |\n| ---: |\n"
        "| 41.0 |\n| 42.0 |\n| 42.6 |\n| 43.9 |\n\n<!-- end -->\n"
    )
    assert fill("<!-- value: training.synthetic.bleu --><!-- end -->").endswith(">99.6 ± 0.1<!-- end -->")


def test_an_unknown_file_row_or_value_is_an_error() -> None:
    for part in ("value: training.nothing", "table: training rows=nothing", "nothing: training"):
        with pytest.raises(KeyError):
            fill(f"<!-- {part} --><!-- end -->")
    with pytest.raises(FileNotFoundError):
        fill("<!-- table: nothing --><!-- end -->")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_says_where_its_numbers_come_from(file: Path) -> None:
    content = figures.load(file.stem)
    assert content.keys() - figures.PROVENANCE == {"what", "columns", "rows", "values"}
    if file.stem not in ("published", "optimisations", "costs"):  # other authors; a machine in each row
        assert content.keys() >= {"command", "machine", "date"}
    assert all(content[key] for key in content.keys() & figures.PROVENANCE)
    if file.stem != "claims":
        assert all(row.keys() == content["columns"].keys() for row in content["rows"].values())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_is_shown_on_a_page(file: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for kind in ("table", "source"):  # of all rows, or of a part
        expected = "<!-- claims" if kind == "table" and file.stem == "claims" else f"<!-- {kind}: {file.stem} "
        if (kind, file.stem) != ("source", "soak_scenarios"):  # measured together with soak
            assert expected in text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_single_value_is_shown_on_a_page(file: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    for key in figures.load(file.stem)["values"]:
        assert f"<!-- value: {file.stem}.{key} -->" in text, key


def test_claims_are_those_of_the_experiments() -> None:
    content = figures.load("claims")
    assert list(content["rows"]) == [claim.name for claim in CLAIMS]
    assert content["values"]["claims"] == len(CLAIMS)
    assert content["values"]["not_held"] == sum(not row["held"] for row in content["rows"].values())


def test_modules_of_optimisations_exist() -> None:
    for name in ("optimisations", "costs"):
        for row in figures.load(name)["rows"].values():
            for module in re.findall(r"`([\w./]+)`", row["module"]):
                path = module if "/" in module else f"src/heed/{module.replace('.', '/')}.py"
                assert (ROOT / path).exists(), module
