"""The cache: damaged entries, killed processes, concurrent builds, full disks."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heed import cache
from heed.cache import build_once, cache_home
from heed.errors import HeedError
from heed.files import require_room
from tests import forkserver
from tests.damage import flip_bit, make_folder, truncate
from tests.data.texts import ROOT, numbered_dogs, train_tokenizer

PAIRS = numbered_dogs(500)


def make_empty(file: Path) -> None:
    file.write_bytes(b"")


def drop_manifest(file: Path) -> None:
    (file.parent / "manifest.json").unlink()


def damage_manifest(file: Path) -> None:
    truncate(file.parent / "manifest.json")


DAMAGE: list[Callable[[Path], None]] = [
    truncate, flip_bit, make_empty, make_folder, drop_manifest, damage_manifest,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_built_again(damage: Callable[[Path], None], tmp_path: Path) -> None:
    tokenizer = train_tokenizer(PAIRS, tmp_path)
    (model,) = (tmp_path / "tokenizer").rglob("*.model")
    damage(model)
    assert train_tokenizer(PAIRS, tmp_path).digest == tokenizer.digest


def test_an_entry_of_another_format_version_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def build(path: Path) -> None:
        assert not list(path.iterdir()), "parts of another version"
        built.append(cache.CACHE_FORMAT)
        (path / "file").write_text("text")

    def interrupt(path: Path) -> None:
        (path / "part").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "CACHE_FORMAT", 0)
    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "entry", interrupt)
    for version in (1, 1, 2, 2):
        monkeypatch.setattr(cache, "CACHE_FORMAT", version)
        build_once(tmp_path / "entry", build)
    assert built == [1, 2]


# Builds an entry of two files: prints when it has written the first, and waits before the second.
BUILDER = """
import sys, time
from pathlib import Path
from heed.cache import build_once

def build(folder):
    (folder / "a").write_text("half")
    print("building", flush=True)
    time.sleep(float(sys.argv[2]))
    (folder / "b").write_text("whole")

build_once(Path(sys.argv[1]), build)
print("done", flush=True)
"""


def start_builder(entry: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", BUILDER, str(entry), str(seconds)]
    return forkserver.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_the_waiting_process_builds_when_the_building_one_is_killed(tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "entry"
    first = start_builder(entry, 600)
    assert first.stdout
    assert first.stdout.readline() == "building\n"
    second = start_builder(entry, 0)
    time.sleep(1)
    assert second.poll() is None, "the second process waits for the first"
    first.send_signal(signal.SIGKILL)
    assert second.communicate(timeout=60)[0] == "building\ndone\n"
    assert (first.wait(), second.returncode) == (-signal.SIGKILL, 0)
    first.stdout.close()
    assert {path.name for path in entry.iterdir()} == {"a", "b", "manifest.json"}
    assert not list(tmp_path.rglob("*.partial"))


def test_files_of_a_killed_process_do_not_block_the_next(tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    first = start_builder(entry, 600)
    assert first.stdout
    assert first.stdout.readline() == "building\n"
    first.kill()
    first.communicate()
    assert list(tmp_path.glob("entry.*.partial"))
    assert start_builder(entry, 0).communicate(timeout=60)[0] == "building\ndone\n"
    assert start_builder(entry, 0).communicate(timeout=60)[0] == "done\n"
    assert not list(tmp_path.glob("entry*.partial"))


def test_one_of_several_processes_builds(tmp_path: Path) -> None:
    processes = [start_builder(tmp_path / "entry", 0.2) for _ in range(4)]
    printed = sorted(process.communicate(timeout=60)[0] for process in processes)
    assert printed == ["building\ndone\n", "done\n", "done\n", "done\n"]


def test_a_cache_path_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    with pytest.raises(HeedError, match="not a UTF-8 path: set cache_dir=DIR"):
        build_once(odd / "entry", lambda path: None)
    assert not odd.exists()
    shutil.rmtree(odd, ignore_errors=True)


def test_an_interrupted_build_is_continued_and_a_failed_one_is_not(tmp_path: Path) -> None:
    def stopped_by(error: BaseException) -> Callable[[Path], None]:
        def build(folder: Path) -> None:
            (folder / "half").write_text("half")
            raise error

        return build

    found: list[list[str]] = []
    for error in (KeyboardInterrupt(), HeedError("The text is wrong.")):
        with pytest.raises(type(error)):
            build_once(tmp_path / "entry", stopped_by(error))
        assert not (tmp_path / "entry").exists()
        build_once(tmp_path / "entry", lambda folder: found.append([path.name for path in folder.iterdir()]))
        shutil.rmtree(tmp_path / "entry")
    assert found == [["half"], []]


def test_a_damaged_entry_keeps_its_files_for_those_who_have_mapped_them(tmp_path: Path) -> None:
    first = build_once(tmp_path / "entry", lambda folder: (folder / "file").write_text("whole") and None)
    flip_bit(first / "file")
    second = build_once(tmp_path / "entry", lambda folder: (folder / "file").write_text("again") and None)
    assert (first / "file").exists()
    assert second != first
    assert (second / "file").read_text() == "again"
    assert build_once(tmp_path / "entry", lambda folder: None) == second


def test_an_entry_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for options, setting in (({}, "cache_dir"), ({"setting": "XDG_CACHE_HOME"}, "XDG_CACHE_HOME")):
        with pytest.raises(HeedError, match=rf"cannot be written .*set {setting}=DIR"):
            build_once(tmp_path / "file" / "x" / "y", lambda folder: None, **options)


def test_the_cache_of_a_user_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    for value, folder in {str(tmp_path): tmp_path, "": tmp_path / "home/.cache", "x": tmp_path / "home/.cache"}.items():
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_home() == folder / "heed"


@pytest.mark.posix("users without a home")
def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(HeedError, match=r"^There is no folder for caches: set HOME or XDG_CACHE_HOME"):
        cache_home()


def test_a_disk_with_too_little_room_keeps_the_finished_parts(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "part").touch()
        require_room(folder, 1e30, "this test", "cache_dir")

    with pytest.raises(HeedError, match="of free space, but this test needs"):
        build_once(tmp_path / "entry", build)
    (partial,) = tmp_path.glob("entry.*.partial")
    assert (partial / "part").exists()
