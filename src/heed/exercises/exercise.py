"""An exercise and its files."""

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path
from typing import Any

EXERCISE_FILES = Path(__file__).parent / "files"

Inputs = Iterator[tuple[str, tuple[Any, ...]]]
"""Arguments for an implementation, each with what is special about them: ("with padding", (scores, mask))."""


@dataclass(frozen=True)
class Exercise:
    """A function to write."""

    name: str
    """Of the function, of the student's file, and of the folder in `EXERCISE_FILES`."""
    results: tuple[str, ...]
    """A name for each value that the function returns."""
    draw_inputs: Callable[[], Inputs]
    """Draws from torch's generator."""

    def read(self, file: str) -> str:
        """Return the text of solution.py, mistakes.toml or hint.txt."""
        return (EXERCISE_FILES / self.name / file).read_text(encoding="utf-8")

    def heading(self) -> tuple[str, str]:
        """Return what the exercise teaches, and the paper: the first line of the solution."""
        match = re.match(r'"""(.+) \((.+)\)\."""', self.read("solution.py"))
        assert match
        return match[1], match[2]

    def skeleton(self) -> str:
        """Return the student's file: the solution without the body of its function."""
        lines = self.read("solution.py").splitlines()
        functions = (node for node in ast.parse(self.read("solution.py")).body if isinstance(node, ast.FunctionDef))
        body = next(node.body for node in functions if node.name == self.name)
        gap = f"    raise NotImplementedError  # write the body, then run: heed exercise check {self.name}"
        lines[body[0].end_lineno : body[-1].end_lineno] = [gap]
        return "\n".join([*lines, ""])

    def solution(self) -> Callable[..., Any]:
        """Return the function of the solution."""
        return load(EXERCISE_FILES / self.name / "solution.py")[self.name]

    def parameters(self) -> list[str]:
        """Return the names of the function's parameters."""
        return list(inspect.signature(self.solution()).parameters)

    def mistakes(self) -> list[Callable[..., Any]]:
        """Return wrong implementations: changed solutions. The docstring of each explains its mistake."""
        found = []
        for explanation, changes in tomllib.loads(self.read("mistakes.toml")).items():
            source = self.read("solution.py")
            for right, wrong in changes.items():
                assert source.count(right) == 1, f"{right} is not one place of the solution"
                source = source.replace(right, wrong)
            names: dict[str, Any] = {}
            exec(source, names)
            names[self.name].__doc__ = explanation
            found.append(names[self.name])
        return found


def load(path: Path) -> dict[str, Any]:
    """Execute a Python file and return its names. Unlike an import, this leaves no trace."""
    return run_path(str(path), run_name=path.stem)
