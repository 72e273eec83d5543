"""Numbers and tables from docs/results: how they are written, and that every file says where they come from."""

import re
from pathlib import Path

import pytest
from docs.pages import ROOT, fill, pages
from experiments.claims import CLAIMS

from docs import figures

FILES = sorted((ROOT / "docs" / "results").glob("*.json"))


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
