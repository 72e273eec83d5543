"""What Windows and macOS need and their own test runs (.github/workflows/test.yml) cannot show."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path, PureWindowsPath

import pytest

from heed.data.text.formats import entries
from heed.runs.checkpoints import Selection
from heed.sweep import search
from heed.training.callbacks.checkpoints import Checkpoints
from tests import systems

ROOT = Path(__file__).parent.parent


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


def test_a_pattern_with_backslashes_matches_files_of_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "Path", PureWindowsPath)
    found = PureWindowsPath(r"corpora\news\part-1.en")
    for pattern in (r"corpora\*\part-*.en", "corpora/*/part-*.en"):
        assert entries._wildcard_text(pattern, found) == ("news", "1")
    assert entries._wildcard_text(r"corpora\*.en", found) == ()


def test_a_checkpoint_that_another_program_reads_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (tmp_path / f"last-000000{step}.ckpt" for step in (1, 2))
    old.touch()
    new.touch()

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "The file is open", str(path))

    checkpoints = Checkpoints(tmp_path, selection=Selection(), keep_best=0, keep_last=1)
    with monkeypatch.context() as windows:
        windows.setattr(Path, "unlink", refuse)
        checkpoints._remove_others(2)
    assert checkpoints.last == [new, old]
    checkpoints._remove_others(2)
    assert checkpoints.last == [new]


@pytest.mark.parametrize("is_windows", [True, False])
def test_on_windows_the_workers_of_a_search_can_save_a_checkpoint_at_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_windows: bool
) -> None:
    called = []

    class Worker:
        def __getattr__(self, name: str) -> Callable[[], None]:
            return lambda: called.append(name)

    def press_ctrl_c(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "WINDOWS", is_windows)
    monkeypatch.setattr(search, "_start", lambda *_: Worker())
    monkeypatch.setattr(search.time, "sleep", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        search.run_workers(1, tmp_path, watch=lambda: None)
    assert called == ["poll", *([] if is_windows else ["terminate"]), "wait"]


def test_files_that_other_systems_do_not_collect_exist() -> None:
    assert {name for name in systems.not_collected("win32") if not (ROOT / "tests" / name).exists()} == set()
    assert set(systems.not_collected("darwin")) == set(systems.LINUX)
    assert systems.not_collected("linux") == []
