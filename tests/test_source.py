"""Rules for the source: only "\\n" ends a sentence, and text files are opened in a named encoding."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import systems

ROOT = Path(__file__).parent.parent

NO_SENTENCES = {
    "src/heed/errors.py": 1,  # a message
    "src/heed_exercises/exercise.py": 1,  # source code
    "src/heed/options.py": 1,  # messages
    "src/heed/report/sweep.py": 1,  # a table
    "src/heed/sweep/search.py": 1,  # a log
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


def unnamed_encodings(file: Path) -> Iterator[str]:
    """Yield the calls that open a file or a pipe as text and do not say in which encoding."""
    text = file.read_text(encoding="utf-8")
    if not any(word in text for word in ("read_text", "write_text", "open(", "text=True")):
        return
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        name = ast.unparse(call.func).rpartition(".")[2]
        modes = [word.value for word in (*call.args, given.get("mode")) if isinstance(word, ast.Constant)]
        opens_text = name in ("open", "fdopen", "TextIOWrapper", "NamedTemporaryFile") and not any(
            "b" in mode for mode in modes if isinstance(mode, str)
        )
        pipes_text = isinstance(given.get("text"), ast.Constant)
        is_text = opens_text or pipes_text or (isinstance(call.func, ast.Attribute) and name in TEXT)
        if is_text and not ("encoding" in given or OTHER_OPEN & {ast.unparse(call.func)}):
            yield f"{file.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}"


TEXT = {"read_text", "write_text"}
"""Methods of paths."""
OTHER_OPEN = {"os.open", "output.open", "archive.open", "run.open", "Image.open"}
"""Functions with the name ``open`` that open no text."""


def test_every_text_file_is_opened_in_a_named_encoding() -> None:
    files = [file for folder in ("src", "scripts") for file in (ROOT / folder).rglob("*.py")]
    assert [call for file in files for call in unnamed_encodings(file)] == []


def test_files_that_other_systems_do_not_collect_exist() -> None:
    assert [name for name in systems.not_collected("win32") if not (ROOT / "tests" / name).exists()] == []
