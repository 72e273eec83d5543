"""The code of scripts/bridges.py as cells of a notebook."""

import ast
import re
import textwrap
from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "bridges.py"


def definition(name: str) -> str:
    """Return a class or a function of the script as a block of Python."""
    return _block(_find(name))


def cell(name: str) -> str:
    """Return the body of a function without its docstring; its result is the last line, which a notebook shows."""
    _, first, *_, last = _find(name).body
    return _block(first, last).replace("\nreturn ", "\n")


@cache
def _find(name: str) -> ast.FunctionDef | ast.ClassDef:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}[name]


def _block(first: ast.stmt, last: ast.stmt | None = None) -> str:
    """Return the lines of statements as a block of Markdown."""
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    decorators = getattr(first, "decorator_list", [])
    start = min(node.lineno for node in (first, *decorators)) - 1
    code = textwrap.dedent("\n".join(lines[start : (last or first).end_lineno]))
    code = re.sub(r"\n\n(def (?:.+\n)+)\n", r"\n\n\n\1\n\n", code)  # as ruff formats functions that are not nested
    return f"```python\n{code}\n```"
