"""The tests that docs/reliability.md names exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.reliability


def test_each_named_test_exists() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 10
    for path, test in named:
        tree = ast.parse((ROOT / path).read_text())
        tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert test in tests, f"{path} has no {test}"
