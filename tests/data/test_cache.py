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

from heed.data import cache
from heed.data.cache import build_once
from heed.errors import HeedError
from tests import forkserver
from tests.data.corpora import ROOT, numbered_dogs, train_tokenizer

PAIRS = numbered_dogs(500)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def make_empty(file: Path) -> None:
    file.write_bytes(b"")


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def drop_checksum(file: Path) -> None:
    """Simulate an entry of an early version of heed, which wrote no checksums."""
    for checksum in file.parents[1].rglob("*.checksum"):
        checksum.unlink()
    truncate(file)


DAMAGE: list[Callable[[Path], None]] = [truncate, flip_bit, make_empty, make_folder, drop_checksum]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_built_again(damage: Callable[[Path], None], tmp_path: Path) -> None:
    tokenizer = train_tokenizer(PAIRS, tmp_path)
    (model,) = (tmp_path / "tokenizer").rglob("*.model")
    damage(model)
    assert train_tokenizer(PAIRS, tmp_path).hash == tokenizer.hash


def test_an_entry_of_another_format_version_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def build(path: Path) -> None:
        built.append(cache.FORMAT)
        path.write_text("text")

    for version in (1, 1, 2, 2):
        monkeypatch.setattr(cache, "FORMAT", version)
        build_once(tmp_path / "entry", build)
    assert built == [1, 2]


# Builds an entry of two files: prints when it has written the first, and waits before the second.
BUILDER = """
import sys, time
from pathlib import Path
from heed.data.cache import build_once

def build(folder):
    folder.mkdir()
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
    assert {path.name for path in entry.iterdir()} == {"a", "b"}
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
    assert not list(tmp_path.glob("entry.*.partial"))


def test_one_of_several_processes_builds(tmp_path: Path) -> None:
    processes = [start_builder(tmp_path / "entry", 0.2) for _ in range(4)]
    printed = sorted(process.communicate(timeout=60)[0] for process in processes)
    assert printed == ["building\ndone\n", "done\n", "done\n", "done\n"]


def test_a_cache_path_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    with pytest.raises(HeedError, match="not a UTF-8 path: set cache_dir=DIR"):
        build_once(odd / "entry", lambda path: path.mkdir())
    assert not odd.exists()
    shutil.rmtree(odd, ignore_errors=True)


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "a" / "b", interrupted)
    assert [path.name for path in (tmp_path / "a").iterdir()] in ([], ["b.lock"])
    assert build_once(tmp_path / "a" / "b", lambda path: path.write_text("whole") and None).read_text() == "whole"


def test_an_entry_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeedError, match=r"Cannot write the cache entry .*set cache_dir=DIR"):
        build_once(tmp_path / "file" / "x" / "y", lambda path: path.mkdir())
