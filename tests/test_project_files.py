"""CHANGELOG, CITATION, CONTRIBUTING, the Makefile and the files for GitHub agree with the code."""

import json
import re
import subprocess
import sys
import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml
from torch.testing import assert_close

from heed.renamed import RENAMED
from tests import conftest

ROOT = Path(__file__).parent.parent
SPEC = spec_from_file_location("entry", ROOT / "scripts" / "test.py")
assert SPEC is not None
assert SPEC.loader is not None
entry = module_from_spec(SPEC)  # not `import test`, which is a package of Python's library
SPEC.loader.exec_module(entry)
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


def test_the_block_that_contributing_adds_works(monkeypatch: pytest.MonkeyPatch) -> None:
    section = CONTRIBUTING.partition("## Add a block")[2].partition("\n## ")[0]
    code = re.findall(r"(?:^ {7}.*\n|^\n(?= {7}))+", section, re.MULTILINE)
    block, case, choice, formula = (textwrap.dedent(text).strip("\n") for text in code)
    scores, config = (ROOT / "src" / "heed" / name for name in ("layers/attention_scores.py", "models/rnn_config.py"))
    (addition,) = re.findall(r"^2\. Add `(\S+)` to `ScoreName`", section, re.MULTILINE)
    old = scores.read_text(encoding="utf-8")
    new = old.replace("ScoreName = Literal[", f"{block}\n\n\nScoreName = Literal[{addition}, ")
    new = new.replace("    match kind:\n", f"    match kind:\n{textwrap.indent(case, ' ' * 8)}\n")
    changed = load_source("heed.layers.attention_scores", new, monkeypatch)
    rnn_config = load_source("heed.models.rnn_config", config.read_text(encoding="utf-8"), monkeypatch)

    options = yaml.safe_load((ROOT / "conf/model/attention/general.yaml").read_text(encoding="utf-8"))
    options |= yaml.safe_load(choice)
    attention = rnn_config.AttentionConfig(**{key: options[key] for key in options.keys() - {"_target_", "defaults"}})
    score = changed.build_score_function(
        attention.score, query_width=7, state_width=7, max_source=None, coverage=attention.coverage
    )
    query, states = torch.randn(2, 3, 7), torch.randn(2, 5, 7)
    found = score(query, score.project(states, torch.ones(2, 5, dtype=torch.bool)))
    expected = formula.partition("return ")[2]
    for b, t, s in ((0, 0, 0), (1, 2, 4)):
        assert_close(found[b, t, s], eval(expected, {"h_t": query[b, t], "h_s": states[b, s]}))


def load_source(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Execute the source of a module, and let others import that instead of the module."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(source, module.__dict__)
    return module


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


def test_the_workflow_runs_the_tests_on_the_lowest_and_the_newest_python_and_on_all_systems() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    job, others = workflow["jobs"]["test"], workflow["jobs"]["other-systems"]
    assert "make test" in [step.get("run") for step in job["steps"]]
    assert "3.11" in job["strategy"]["matrix"]["python"]
    assert "python scripts/test.py" in [step.get("run") for step in others["steps"]]
    assert others["strategy"]["matrix"]["system"] == ["windows-latest", "macos-latest"]


def test_hooks_run_the_tools_of_the_environment() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    entries = [
        hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in repository["hooks"]
    ]
    assert entries == [name for name in entry.CHECKS if not name.startswith("mypy for ")]


def test_the_checks_read_the_code_as_every_system_does() -> None:
    """mypy knows which names of Python's library a system has."""
    command = next(command for name, command in entry.CHECKS.items() if name == "mypy for win32")
    assert command[:3] == ["mypy", "--platform", "win32"]
    assert command[-1] == "src/heed"


def test_the_fast_tests_are_those_of_the_folders_that_the_entry_names() -> None:
    assert entry.ROOMS == conftest.FAST


def test_cpu_seconds_are_printed_with_the_slowest_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [tmp_path / name for name in ("fast.json", "others.json")]
    for report, seconds in zip(reports, (2, 30), strict=True):
        report.write_text(json.dumps({"total": 450, "tests": {f"test_{seconds}": seconds}}))
    entry.print_cpu_seconds(reports, checks=70.0, limit=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["   30.0 test_30", "    2.0 test_2", "970 CPU seconds in all, 70 of them for the checks"]
    assert lines[3].startswith("WARNING: more than 960 CPU seconds.")
    entry.print_cpu_seconds(reports, checks=70.0, limit=False)
    assert "WARNING" not in capsys.readouterr().out
