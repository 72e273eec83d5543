"""CHANGELOG, CITATION, CONTRIBUTING, the Makefile and the files for GitHub agree with the code."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from heed.renamed import RENAMED

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_citation_has_what_cff_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # https://github.com/citation-file-format/citation-file-format, schema 1.2.0: the required keys.
    assert citation.keys() >= {"authors", "cff-version", "message", "title"}
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["license"] == "Apache-2.0"
    assert citation["authors"] == [{"name": "The heed developers"}]


def test_changelog_lists_every_renamed_option() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^ *\| `([\w.]+)` \| `([\w.]+)` \|$", changelog, re.MULTILINE))
    missing = {old: new for old, new in RENAMED.items() if not rows.get(old, "").endswith(new)}
    assert not missing


def test_files_that_contributing_names_exist() -> None:
    named = set(
        re.findall(r"`((?:src|conf|tests|docs|scripts|data)/[\w./-]*|[\w-]+\.(?:txt|toml|md|py))`", CONTRIBUTING)
    )
    assert len(named) > 15
    examples = {"conf/model/attention/cosine.yaml", "conf/data/europarl.yaml"}  # files that the reader writes
    written_by_runs = {"metrics.csv"}
    assert not {name for name in named - examples - written_by_runs if not (ROOT / name).exists()}


def test_targets_that_contributing_names_exist() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^make ([\w-]+) +\S", printed, re.MULTILINE))
    assert targets >= set(re.findall(r"\bmake (help|setup|[\w-]*test[\w-]*|check|docs)\b", CONTRIBUTING))
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == targets


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda form: form.name
)
def test_issue_forms_have_what_github_requires(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.name == "config.yml":
        assert isinstance(content["blank_issues_enabled"], bool)
        return
    assert content.keys() >= {"name", "description", "body"}
    identifiers = [field["id"] for field in content["body"]]
    assert len(set(identifiers)) == len(identifiers)
    for field in content["body"]:
        assert field["type"] in {"textarea", "input", "dropdown", "checkboxes"}
        assert field["attributes"]["label"]


def test_the_workflow_runs_the_tests_on_the_lowest_and_the_newest_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["test"]
    assert "make test" in [step.get("run") for step in job["steps"]]
    assert "3.11" in job["strategy"]["matrix"]["python"]


def test_hooks_run_the_tools_of_the_environment() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    # The checks of scripts/check, in the same order.
    commands = re.findall(
        r"^(ruff \w+|mypy|lint-imports)", (ROOT / "scripts" / "check").read_text("utf-8"), re.MULTILINE
    )
    entries = [
        hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in repository["hooks"]
    ]
    assert entries == commands
