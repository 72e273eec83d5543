"""The page for users of other toolkits: every option of heed on it exists, and heed answers the others with it."""

import re
from itertools import pairwise

import pytest
from docs.pages import ROOT

from docs import commands, options
from heed.options import in_heed

PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in re.findall(r"^\| .*\|$", PAGE, re.MULTILINE)
    if not line.startswith("| heed |")
]
OPTIONS = set(re.findall(r"^\| `([\w.]+)` \|", options.markdown(), re.MULTILINE))
FLAGS = {flag for parser in commands.parsers().values() for action in parser._actions for flag in action.option_strings}


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_options_of_heed_exist(row: list[str]) -> None:
    assert names(row[0])
    for name in names(row[0]):
        if name.startswith("heed "):
            assert name.split()[1] in commands.parsers()
            for word, value in pairwise(name.split()):
                if word.startswith("--"):
                    action = commands.parsers()[name.split()[1]]._option_string_actions[word]
                    assert action.choices is None or value in action.choices
        elif name.startswith("--"):
            assert name in FLAGS
        else:
            option, _, choice = name.partition("=")
            group = options.CONF / option
            if group.is_dir():
                assert (group / f"{choice}.yaml").exists()
            else:
                assert option in OPTIONS


def test_heed_answers_the_names_of_other_toolkits_with_the_option_of_their_row() -> None:
    """A name may be in several rows: the answer is the option of one of them. The table of habits lacks some names."""
    rows: dict[str, set[str]] = {}
    for row in ROWS:
        for name in (name for cell in row[1:] for name in names(cell)):
            rows.setdefault(name.split(":")[0].split()[0], set()).update(own.partition("=")[0] for own in names(row[0]))
    answers = {name: answer for name in rows if (answer := in_heed(name))}
    assert len(answers) > 60
    wrong = {name: answer for name, answer in answers.items() if not any(own in answer for own in rows[name])}
    assert wrong == {}


def test_every_row_has_a_cell_for_each_toolkit() -> None:
    assert len(ROWS) > 30
    assert {len(row) for row in ROWS} == {7}
