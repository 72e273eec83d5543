"""The options page, the names that pages use, and the page for users of other toolkits."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from docs.pages import MARKED, ROOT, pages

from docs import commands, options
from heed.options import in_heed

KNOWN = re.findall(r"^\| `([\w.]+)` \|", options.markdown(), re.MULTILINE)
GROUPS = {folder.relative_to(options.CONF).as_posix() for folder in options.groups()} | {"experiment", "hydra/launcher"}


def test_every_option_of_conf_is_on_the_page() -> None:
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    for file in options.CONF.glob("*/**/*.yaml"):
        if file.parent.name != "experiment":
            for option in options.read(file).options:
                assert f"{option.name}` |" in text, (file, option.name)


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.stem != "python"], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_options_on_the_pages_exist(page: Path) -> None:
    """Every ``name=value`` in code names an option or a group of conf/, unless + adds it."""
    text = MARKED.sub("", page.read_text(encoding="utf-8"))
    for code in re.findall(r"^```sh$.*?^```$|`[^`\n]+`", text, re.DOTALL | re.MULTILINE):
        if re.match(r"`[\w.]+\(", code):  # a call in Python
            continue
        for name in re.findall(r"(?<![\w\-./'=+])([a-z]\w*(?:[./]\w+)*)=(?!=)\S", code):
            if name not in ("claims", "rnn", "transformer", "name", "group", "heed") and not name.startswith("hydra."):
                assert name in KNOWN or name in GROUPS, name


def test_every_command_is_on_the_page() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, parser in commands.parsers().items():
        assert f"## heed {name}" in text
        for action in parser._actions:
            assert not action.option_strings or action.dest == "help" or f"`{action.option_strings[-1]}" in text


PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in re.findall(r"^\| .*\|$", PAGE, re.MULTILINE)
    if not line.startswith("| heed |")
]
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
                assert option in KNOWN


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
