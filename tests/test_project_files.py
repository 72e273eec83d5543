"""CONTRIBUTING agrees with the files, the Makefile and the code; the entry of the tests does what it says."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from heed.errors import HeedError
from heed.evaluation.metrics import METRICS
from heed.evaluation.scores import SystemOutput
from heed.files import built_in_corpus
from heed.launch.run import load_metrics
from tests import conftest

ROOT = Path(__file__).parent.parent
SPEC = spec_from_file_location("entry", ROOT / "scripts" / "test.py")
assert SPEC is not None
assert SPEC.loader is not None
entry = module_from_spec(SPEC)  # not `import test`, which is a package of Python's library
SPEC.loader.exec_module(entry)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_files_that_contributing_names_exist() -> None:
    named = set(
        re.findall(r"`((?:src|conf|tests|docs|scripts|data)/[\w./-]*|[\w-]+\.(?:txt|toml|md|py))`", CONTRIBUTING)
    )
    assert len(named) > 15
    examples = {
        "conf/model/attention/cosine.yaml",
        "conf/model/positions/logarithmic.yaml",
        "conf/data/europarl.yaml",
    }  # files that the reader writes
    written_by_runs = {"metrics.csv"}
    assert not {name for name in named - examples - written_by_runs if not (ROOT / name).exists()}


def test_targets_that_contributing_names_exist() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^make ([\w-]+) +\S", printed, re.MULTILINE))
    assert targets >= set(re.findall(r"\bmake (help|setup|[\w-]*test[\w-]*|check|docs)\b", CONTRIBUTING))
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == targets


def example(title: str) -> list[str]:
    """Return the code of a section of CONTRIBUTING, block by block."""
    section = re.split(r"^##", CONTRIBUTING.partition(f"\n{title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    code = re.findall(r"(?:^ {4,}\S.*\n|^\n(?=\n* {4}))+", section, re.MULTILINE)
    return [textwrap.dedent(text).strip("\n") for text in code]


RECIPES: dict[str, tuple[tuple[str, str], ...]] = {
    "### A score function": (
        ("src/heed/layers/attention_scores.py", ""),
        ("conf/model/attention/cosine.yaml", ""),
        ("tests/layers/test_attention_scores.py", '        case "general", GeneralScore():\n'),
    ),
    "### Positions": (("src/heed/layers/positions.py", ""), ("conf/model/positions/logarithmic.yaml", "")),
    "## Add an option": (
        ("src/heed/data/text/cleaning.py", "    max_chars: AtLeast1 | None\n"),
        ("src/heed/data/text/cleaning.py", '    "too long",\n'),
        ("src/heed/data/text/cleaning.py", "        if self.cleaning.max_chars is not None:\n"),
        ("conf/data/cleaning/default.yaml", ""),
        ("tests/data/texts.py", '    "max_chars": None,\n'),
    ),
    "## Add a corpus": (("conf/data/europarl.yaml", ""),),
    "## Add a metric": (
        ("src/heed/evaluation/metrics.py", "def exact_match("),
        ("src/heed/evaluation/metrics.py", '    "length-ratio": '),
    ),
}
"""Where each code block of a recipe of CONTRIBUTING goes: its file, and the text that it precedes; "": to the end."""
CHANGES = {
    "tests/layers/test_attention_scores.py": ('("dot", "scaled_dot")', '("dot", "scaled_dot", "cosine")'),
    "docs/metrics.md": (
        "| `exact-match` |",
        "| `not-copied` | per cent of translations that differ | higher | for copies |\n| `exact-match` |",
    ),
}
"""What the recipes say in words: the text of a file that changes, and the new text."""

AFFECTED = [
    *("tests/layers", "tests/models", "tests/docs", "tests/test_conf.py", "tests/test_options.py"),
    *("tests/data/text/test_cleaning.py", "tests/data/text/test_preparation.py", "tests/evaluation/test_metrics.py"),
]
"""The tests of what the recipes change."""


@pytest.fixture(scope="module")
def changed_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of heed and its tests, in which all recipes of CONTRIBUTING are followed."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("src", "conf", "tests", "scripts", "docs", "notebooks"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("*.*"), ROOT / "Makefile", ROOT / "data" / "README.md", *built_in_corpus().iterdir()):
        if file.is_file():
            target = tree / file.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    for title, places in RECIPES.items():
        for block, (name, before) in zip(example(title), places, strict=True):
            text = (tree / name).read_text(encoding="utf-8") if (tree / name).exists() else ""
            start = text.index(before) if before else len(text)
            added = textwrap.indent(block, " " * (len(before) - len(before.lstrip())))
            changed = f"{text[:start]}{added}\n{text[start:]}" if before else f"{text}\n\n{added}\n"
            (tree / name).write_text(changed.lstrip("\n"), encoding="utf-8")
    for name, (old, new) in CHANGES.items():
        text = (tree / name).read_text(encoding="utf-8")
        assert old in text
        (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    # The recipes say so.
    subprocess.run([sys.executable, "scripts/docs"], cwd=tree, env=environment(tree), check=True)
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which Python imports heed from this tree."""
    return {**os.environ, "PYTHONPATH": str(tree / "src")}


def test_the_tests_pass_when_the_recipes_of_contributing_are_followed(changed_tree: Path) -> None:
    command = [sys.executable, "scripts/test.py", *AFFECTED, "-p", "no:cacheprovider"]
    tested = subprocess.run(command, cwd=changed_tree, env=environment(changed_tree), capture_output=True, text=True)
    assert tested.returncode == 0, tested.stdout[-5000:]


@pytest.mark.parametrize("options", [("model=rnn", "model/attention=cosine"), ("model/positions=logarithmic",)])
def test_the_blocks_that_contributing_adds_can_be_trained(changed_tree: Path, options: tuple[str, ...]) -> None:
    trained = subprocess.run(
        [sys.executable, "train.py", *options, "debug=smoke", "logger=none"],
        cwd=changed_tree,
        env=environment(changed_tree),
        capture_output=True,
        text=True,
    )
    assert trained.returncode == 0, trained.stderr


def test_the_metric_that_contributing_adds_can_be_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    source, line = example("## Add a metric")
    added = load_source("heed.evaluation.copies", source, monkeypatch)
    table = eval(f"{{{line}}}", vars(added))
    monkeypatch.setattr("heed.launch.run.METRICS", {**METRICS, **table})
    options: dict[str, Any] = {"metrics": ["ter"], "metric": {}, "data": {}}
    selection, chosen = load_metrics({**options, "select": "not-copied"})
    assert [*chosen] == ["ter", "not-copied"]
    output = SystemOutput(hypotheses=["a", "b"], references=[["x", "y"]], sources=["a", "c"])
    assert chosen["not-copied"](output).value == 50
    assert selection.key({"bleu": 0.0, "not-copied": 50}) > selection.key({"bleu": 5.0, "not-copied": 40})
    ter, _ = load_metrics({**options, "select": "ter"})
    assert ter.key({"bleu": 0.0, "ter": 40}) > ter.key({"bleu": 5.0, "ter": 50})
    for select in ("length-ratio", "rouge"):
        with pytest.raises(
            HeedError, match=f"select={select} cannot rank validations: choose one of bleu, chrf, loss, "
        ):
            load_metrics({**options, "select": select})
    with pytest.raises(HeedError, match="There is no metric 'rouge'"):
        load_metrics({**options, "select": "bleu", "metrics": ["rouge"]})
    own = {"mine": {"_target_": "heed.evaluation.copies.not_copied", "_partial_": True}}
    assert [*load_metrics({**options, "select": "mine", "metric": own})[1]] == ["ter", "mine"]


def load_source(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Execute the source of a module, and let others import that instead of the module."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(source, module.__dict__)
    return module


def test_the_fast_tests_are_those_of_the_folders_that_the_entry_names() -> None:
    assert entry.ROOMS == conftest.FAST
