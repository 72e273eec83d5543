"""The tests that docs/reliability.md names exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.reliability


def test_each_named_test_exists() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 10
    missing = [f"{path}::{test}" for path, test in named if test not in functions(ROOT / path)]
    assert not missing


def functions(path: Path) -> set[str]:
    """Return the names of the functions of a module; none if it does not exist."""
    tree = ast.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
