"""Only "\\n" ends a sentence: nothing splits text with str.splitlines(), which also splits at U+2028 and U+0085."""

import ast
import sys
from collections import Counter
from pathlib import Path
from subprocess import run

import pytest

ROOT = Path(__file__).parents[1]

NO_SENTENCES = {
    "src/heed/errors.py": 1,  # a message
    "src/heed/exercises/exercise.py": 1,  # source code
    "src/heed/options.py": 1,  # messages
    "src/heed/report/sweep.py": 1,  # a table
    "src/heed/sweep/workers.py": 1,  # a log
    "scripts/benchmark/preparing.py": 1,  # a report
    "scripts/docs/drawings.py": 1,  # a style sheet
    "scripts/docs/options.py": 1,  # comments
    "scripts/experiments/runner.py": 1,  # a log
    "scripts/oracle.py": 1,  # /proc/cpuinfo
}
"""Calls of splitlines() by file that split something else than sentences."""


def test_nothing_splits_sentences_with_splitlines() -> None:
    found: Counter[str] = Counter()
    for file in (file for folder in ("src", "scripts", "notebooks") for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            found[file.relative_to(ROOT).as_posix()] += isinstance(node, ast.Attribute) and node.attr == "splitlines"
    assert dict(+found) == NO_SENTENCES


def test_noise_keeps_the_lines() -> None:
    done = _add_noise("a\u2028b iki\nc\u0085d\x0be\r\nf".encode(), "--upper", "1", "--lang", "tr")
    assert done == (0, "A\u2028B İKİ\nC\u0085D\x0bE\nF\n", "")


@pytest.mark.parametrize(
    ("encoding", "message"),
    [("utf-16", "Standard input is UTF-16"), ("latin-1", "Line 2 of Standard input is not UTF-8")],
)
def test_noise_reads_only_utf_8(encoding: str, message: str) -> None:
    status, output, error = _add_noise("a\nStraße\n".encode(encoding))
    assert (status, output) == (2, "")
    assert error.startswith(f"add_noise: {message}")
    assert error.count("\n") == 1


def _add_noise(given: bytes, *options: str) -> tuple[int, str, str]:
    done = run(
        [sys.executable, ROOT / "scripts" / "add_noise.py", *options], input=given, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
