"""Writing files."""

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from heed.cache import CACHE_FORMAT, build_once
from heed.compat import process_space
from heed.errors import HeedError
from heed.files import is_device, remove_unfinished, replacing
from heed.inference import model_folder
from heed.models.seq2seq import Seq2Seq
from heed.runs.results import write_results
from heed.training.callbacks.checkpoints import AtomicCheckpointIO, _link
from tests.tokenizers import train_tokenizer


def test_pipes_and_devices_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replacing(pipe, into_devices=True) as path:
        assert path == pipe
    assert pipe.is_fifo()
    with pytest.raises(HeedError, match="pipe is a device or a pipe and cannot be replaced"), replacing(pipe):
        pass
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dev/null", True),
        ("/dev/stdout", True),
        ("/dev/fd/7", True),
        ("/dev/shm/file", False),
        ("/dev", False),
        ("file", False),
    ],
)
def test_devices_are_recognised(path: str, expected: bool) -> None:
    assert is_device(Path(path)) == expected


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a [1].txt"
    with replacing(path) as first:
        first.write_text("first")
        with replacing(path) as second:
            second.write_text("sec")
            assert first.read_text() == "first"
        assert path.read_text() == "sec"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]
    reference = tmp_path / "reference"
    reference.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(reference.stat().st_mode)


def test_files_of_killed_writers_are_removed_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "a [1].txt"
    others = [tmp_path / name for name in ("a [1].txt.partial", "a [1].txt.gz.partial", "b.0123abcd.partial")]
    killed, running = (tmp_path / f"{path.name}.0123abc{digit}.partial" for digit in "de")
    killed.mkdir()
    for file in (*others, running, killed / "file"):
        file.touch()
    for old in (killed, *others):
        os.utime(old, times=(0, time.time() - 25 * 60 * 60))
    with replacing(path) as partial:
        partial.touch()
    assert set(tmp_path.iterdir()) == {path, running, *others}
    remove_unfinished(tmp_path)
    assert set(tmp_path.iterdir()) == {path, *others[:2]}


def test_files_of_killed_writers_on_this_machine_are_removed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with replacing(path) as running:
        running.mkdir()
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        killed = running.with_name(running.name.replace(f"-{os.getpid()}.", f"-{ended.pid}."))
        elsewhere = killed.with_name(killed.name.replace(process_space(), "0123abcd"))
        for folder in (killed, elsewhere):
            (folder / "weights").mkdir(parents=True)
        with replacing(path) as second:
            second.mkdir()
        assert set(tmp_path.iterdir()) == {path, running, elsewhere}


def test_what_a_run_needs_after_a_power_cut_is_on_the_disk_before_and_after_it_is_renamed(
    tmp_path: Path, tiny_model: Callable[..., Seq2Seq], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    replace = Path.replace

    def record_replace(self: Path, target: Path) -> Path:
        events.append(f"rename {target.name}")
        return replace(self, target)

    monkeypatch.setattr("heed.files.sync_file", lambda path: events.append("file"))
    monkeypatch.setattr("heed.files.sync_folder", lambda path: events.append(f"folder {path.name}"))
    monkeypatch.setattr(Path, "replace", record_replace)

    def events_of(write: Callable[[], object]) -> list[str]:
        events.clear()
        write()
        return events.copy()

    def durable(folder: str, *names: str) -> list[str]:
        return [event for name in names for event in ("file", f"rename {name}", f"folder {folder}")]

    (run := tmp_path / "run").mkdir()
    assert events_of(lambda: write_results(run, {})) == durable("run", "results.json")
    save = AtomicCheckpointIO().save_checkpoint
    assert events_of(lambda: save({"a": torch.ones(2)}, run / "best.ckpt")) == durable("run", "best.ckpt")
    assert events_of(lambda: _link(run / "best.ckpt", run / "last.ckpt")) == durable("run", "last.ckpt")
    entry = events_of(lambda: build_once(tmp_path / "cache" / "entry", lambda folder: (folder / "file").touch()))
    assert entry == [*durable(f"entry.{CACHE_FORMAT}.partial", "manifest.json"), "rename entry"]
    tokenizer = train_tokenizer(["a dog"], vocab_size=12)
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    written = events_of(lambda: model_folder.save(run / "model", model, tokenizer, extra={}))
    assert written == durable("model", "model.safetensors", "src.model", "tgt.model", "config.yaml")


def test_a_folder_is_on_the_disk_with_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with replacing(tmp_path / "model", durable=True) as partial:
        partial.mkdir()
        (partial / "weights").touch()
    assert synced == [path.stat().st_ino for path in (tmp_path / "model" / "weights", tmp_path)]
