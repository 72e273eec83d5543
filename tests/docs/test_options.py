"""The options page: comments and defaults of conf/, types of constructors; and the names that the pages use."""

import re
from pathlib import Path

import pytest
from docs.pages import MARKED, ROOT, pages

from docs import commands, options

KNOWN = re.findall(r"^\| `([\w.]+)` \|", options.markdown(), re.MULTILINE)
GROUPS = {folder.relative_to(options.CONF).as_posix() for folder in options.groups()} | {"experiment", "hydra/launcher"}


def test_a_file_is_read_with_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "general.yaml"
    file.write_text(
        "# @package _global_\n# Two lines\n# of description.\n"
        "defaults:\n  # not a reason\n  - base\n  - override /model: rnn\n"
        "_target_: heed.x.Y\na: 1 # one\n# above\n# it\nb: 2\n"
        "# A part.\npart:\n  _target_: heed.x.Z\n  c: [1, 2] # of the part\n  d: 3\n"
    )
    read = options.read(file)
    assert (read.description, read.package) == ("Two lines of description.", "_global_")
    assert (read.parents, read.overrides) == (["base"], [("model", "rnn")])
    assert read.targets == {"": "heed.x.Y", "part": "heed.x.Z"}
    assert [(o.name, o.default, o.reason) for o in read.options] == [
        ("a", "1", "one"), ("b", "2", "above it"), ("part.c", "[1, 2]", "A part. of the part"), ("part.d", "3", ""),
    ]  # fmt: skip


def test_types_and_ranges_are_those_of_the_constructor() -> None:
    assert options.allowed(options.CONF / "trainer" / "ddp.yaml", "devices") == options.allowed(
        options.CONF / "trainer" / "auto.yaml", "devices"
    )
    assert options.allowed(options.CONF / "search" / "beam.yaml", "n_best").startswith("an integer")


def test_every_option_of_conf_is_on_the_page() -> None:
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    for file in options.CONF.glob("*/**/*.yaml"):
        if file.parent.name != "experiment":
            for option in options.read(file).options:
                assert f"{option.name}` |" in text, (file, option.name)


def test_special_characters_do_not_end_a_cell() -> None:
    assert options.escape("a | b <unk> `c|d_e` f_g") == r"a \| b &lt;unk> `c\|d_e` f\_g"


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
