"""A cache entry is whole or built again, whoever was killed or what happened to the disk in between."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from datasets import Dataset

from heed.data import cache
from heed.data.cache import build_once
from heed.data.encoded import encode, encode_once
from heed.data.tokenizer import Tokenizer, TokenizerTrainer
from heed.errors import HeedError
from tests.data.test_corpus import ENGLISH, GERMAN, files, texts, write

ROOT = Path(__file__).parents[2]

PAIRS = Dataset.from_dict(
    {"src": [f"the dog {n} sleeps" for n in range(500)], "tgt": [f"der Hund {n} schläft" for n in range(500)]}
)


def trained(cache_dir: Path) -> Tokenizer:
    return TokenizerTrainer(
        kind="bpe",
        joint=True,
        vocab_size="auto",
        byte_fallback=True,
        character_coverage=1.0,
        normalization="identity",
        max_sentences=1000,
        sampling=0.0,
    ).train(PAIRS, cache_dir)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def drop_checksum(file: Path) -> None:
    """As the versions of heed that wrote none."""
    for checksum in file.parents[1].rglob("*.checksum"):
        checksum.unlink()
    cut(file)


DAMAGE: list[Callable[[Path], None]] = [cut, flip, empty, make_folder, drop_checksum]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_built_again(damage: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path, train_en=[*ENGLISH, "@@"], train_de=[*GERMAN, "Ein Satz."])
    write(tmp_path, val_en=["Held out."], val_de=["Zurückgehalten."], test_en=["The last."], test_de=["Das Letzte."])
    text, tokenizer = texts(files(tmp_path).train), trained(tmp_path / "cache")
    assert text == list(zip(ENGLISH, GERMAN, strict=True))
    values = encode(PAIRS, tokenizer, tmp_path / "cache").src.values.tolist()
    damaged = sorted(path for path in (tmp_path / "cache").rglob("*") if path.suffix in {".arrow", ".npy", ".model"})
    assert len(damaged) == 4 + 4 + 1, "three splits and the cleaned text, the ids, the tokenizer"
    for file in damaged:
        if file.exists():  # not gone with the folder of another
            damage(file)
    assert texts(files(tmp_path).train) == text
    assert trained(tmp_path / "cache").hash == tokenizer.hash
    assert encode(PAIRS, tokenizer, tmp_path / "cache").src.values.tolist() == values


def test_another_format_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def build(path: Path) -> None:
        built.append(cache.FORMAT)
        path.write_text("text")

    for version in (1, 1, 2, 2):
        monkeypatch.setattr(cache, "FORMAT", version)
        build_once(tmp_path / "entry", build)
    assert built == [1, 2]


# Builds an entry of two files, slowly if asked, and says when it is half done.
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


def start(entry: Path, seconds: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", BUILDER, str(entry), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_when_the_building_process_is_killed_the_waiting_one_builds(tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "entry"
    first = start(entry, 600)
    assert first.stdout
    assert first.stdout.readline() == "building\n"
    second = start(entry, 0)
    time.sleep(1)
    assert second.poll() is None, "it waits for the first"
    first.send_signal(signal.SIGKILL)
    assert second.communicate(timeout=60)[0] == "building\ndone\n"
    assert (first.wait(), second.returncode) == (-signal.SIGKILL, 0)
    first.stdout.close()
    assert {path.name for path in entry.iterdir()} == {"a", "b"}
    assert not list(tmp_path.rglob("*.partial"))


def test_what_a_killed_process_left_does_not_stop_the_next(tmp_path: Path) -> None:
    entry = tmp_path / "entry"
    first = start(entry, 600)
    assert first.stdout
    assert first.stdout.readline() == "building\n"
    first.kill()
    first.communicate()
    assert {path.name for path in tmp_path.iterdir()} >= {"entry.partial", "entry.lock"}
    assert start(entry, 0).communicate(timeout=60)[0] == "building\ndone\n"
    assert start(entry, 0).communicate(timeout=60)[0] == "done\n"
    assert not (tmp_path / "entry.partial").exists()


def test_of_several_processes_one_builds(tmp_path: Path) -> None:
    processes = [start(tmp_path / "entry", 0.2) for _ in range(4)]
    said = sorted(process.communicate(timeout=60)[0] for process in processes)
    assert said == ["building\ndone\n", "done\n", "done\n", "done\n"]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow beyond so many bytes: a full disk for everybody."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 100, 1000, 4000])
def test_a_full_disk_leaves_no_entry(size: int, tmp_path: Path) -> None:
    """``size``: not even a header, a part of a small file, a part of the larger ones."""
    tokenizer = trained(tmp_path)
    with largest_file(size):
        with pytest.raises(HeedError, match=r"encoded/.* could not be written \(File too large\): make room"):
            encode(PAIRS, tokenizer, tmp_path)
        with pytest.raises(HeedError, match=r"encoded .*File too large.*tokenizer\.sampling.*make room"):
            encode_once(PAIRS, tokenizer.sampling(0.1, seed=[1]), tmp_path)
        # The ids are small and the offsets are not.
        with pytest.raises(HeedError, match=r"encoded/.* could not be written \(File too large\)"):
            encode(Dataset.from_dict({"src": [""] * 5000, "tgt": [""] * 5000}), tokenizer, tmp_path)
    assert not [path for path in (tmp_path / "encoded").iterdir() if path.suffix not in {".lock", ".checksum"}]
    assert len(encode(PAIRS, tokenizer, tmp_path)) == 500


def test_sampled_ids_never_have_a_name(tmp_path: Path) -> None:
    """A process that is killed while it writes them leaves nothing behind."""
    tokenizer = trained(tmp_path)
    seen: list[Path] = []

    class Watching(Tokenizer):
        def encode_tgt(self, sentences: object) -> list[list[int]]:
            seen.extend((tmp_path / "encoded").iterdir())
            return tokenizer.encode_tgt(sentences)  # type: ignore[arg-type]

    watching = Watching((next((tmp_path / "tokenizer").glob("*/*.model"))).read_bytes(), None)
    assert len(encode_once(PAIRS, watching, tmp_path)) == 500
    assert seen == []


def test_a_cache_that_is_not_a_utf8_path(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    with pytest.raises(HeedError, match="not a UTF-8 path: set cache_dir=DIR"):
        build_once(odd / "entry", lambda path: path.mkdir())
    assert not odd.exists()
    shutil.rmtree(odd, ignore_errors=True)
