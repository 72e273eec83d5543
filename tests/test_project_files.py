"""CONTRIBUTING agrees with the files, the Makefile and the code; the entry of the tests does what it says."""

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

import heed.evaluation
from heed.errors import HeedError
from heed.launch.run import _load_selection
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


def test_the_metric_that_contributing_adds_can_be_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    section = CONTRIBUTING.partition("## Add a metric")[2].partition("\n## ")[0]
    source, line = (
        textwrap.dedent(text).strip("\n")
        for text in re.findall(r"(?:^ {7}.*\n|^\n(?= {7})|^\n(?=\n {7}))+", section, re.MULTILINE)
    )
    added = load_source("heed.evaluation.ter", source, monkeypatch)
    monkeypatch.setattr(heed.evaluation, "ter", added, raising=False)  # where Hydra looks it up
    metrics = yaml.safe_load((ROOT / "conf" / "train.yaml").read_text(encoding="utf-8"))["metrics"]
    selection, chosen = _load_selection("ter", {**metrics, **yaml.safe_load(line)})
    assert selection.metric == "ter"
    exact, worse = (chosen["ter"].score(["a b"], [text], [["x y"]]).value for text in ("x y", "x z"))
    assert exact > worse
    assert selection.key({"bleu": 0.0, "ter": exact}) > selection.key({"bleu": 5.0, "ter": worse})
    with pytest.raises(HeedError, match="choose one of bleu, chrf, loss, comet"):
        _load_selection("ter", metrics)


def load_source(name: str, source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Execute the source of a module, and let others import that instead of the module."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(source, module.__dict__)
    return module


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
