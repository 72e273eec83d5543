"""Run a case of the fuzz test in a copy of a folder, and check what it must fulfil.

A case is valid by construction and must exit with 0, or hostile and may also exit with 2 and one readable message.
No case may print a traceback, hang, change a file of the user, leave a partial file, or execute code from a file.
"""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import yaml

from tests import forkserver

LIMITED = Path(__file__).with_name("limited.py")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline", "NO_COLOR": "1"}
MARK = "executed"
"""File that malicious code of the cases writes to the working directory."""


@dataclass(frozen=True)
class Case:
    """One run of ``heed`` or ``train.py``.

    Attributes:
        damages: functions with the path of a file and other arguments.
        stdin: (bytes, repetitions); None means closed.
        stdout: "full" means a full disk.
        valid: the command must succeed.
    """

    program: Literal["heed", "train.py"]
    arguments: tuple[str, ...]
    damages: tuple[tuple[Any, ...], ...] = ()
    stdin: Sequence[tuple[bytes, int]] | None = ()
    stdout: Literal["file", "full", "closed"] = "file"
    valid: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of a case: its exit status, its messages, and the files that it created, changed or removed."""

    status: int
    stderr: str
    folder: Path
    created: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()


@contextmanager
def outcome(case: Case, home: Path, *, limit: float) -> Iterator[Outcome]:
    """Run a case in a copy of ``home``, which is deleted at the end of the block, for at most ``limit`` seconds."""
    with (
        TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as name,
        TemporaryDirectory(prefix="fuzz-streams-") as streams,
    ):
        folder = Path(name, "work")
        shutil.copytree(home, folder)
        for damage, file, *details in case.damages:
            damage(folder / file, *details)
        before = _states(folder)
        paths = [Path(streams, name) for name in ("stdin", "stdout", "stderr")]
        paths[0].write_bytes(b"".join(piece * times for piece, times in case.stdin or ()))
        closed = "0" * (case.stdin is None) + "1" * (case.stdout == "closed")
        paths[1] = Path("/dev/full") if case.stdout == "full" else paths[1]
        with paths[0].open("rb") as stdin, paths[1].open("wb") as stdout, paths[2].open("wb") as stderr:
            process = forkserver.Popen(
                [sys.executable, LIMITED, str(limit), closed, case.program, *case.arguments],
                stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env={**os.environ, **ENVIRONMENT},
                start_new_session=True,
            )  # fmt: skip
            try:
                status = process.wait(limit + 20)
            finally:
                with suppress(ProcessLookupError):  # the processes that it has started
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        after = _states(folder)
        yield Outcome(
            status, paths[2].read_text(encoding="utf-8", errors="replace"), folder, tuple(after.keys() - before.keys()),
            tuple(path for path, state in before.items() if after.get(path) != state),
        )  # fmt: skip


def _states(folder: Path) -> dict[Path, tuple[int, int]]:
    files = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in files}


def check(case: Case, seen: Outcome) -> None:
    """Check an outcome. Each fault fails in a line of its own, so that hypothesis shrinks it without mixing faults."""
    stderr = seen.stderr[-3000:]
    assert not (seen.folder / MARK).exists(), "code of a file was executed"
    assert "Timeout (" not in stderr, f"no end within the limit:\n{stderr}"
    assert "Traceback (most recent call last)" not in stderr, stderr
    assert seen.status in (0, 2), f"exit status {seen.status}:\n{stderr}"
    # The message of a wrong argument begins with the command.
    message = re.split(rf"^(?:{case.program}|heed [a-z]+): ", seen.stderr, flags=re.MULTILINE)[1:]
    readable = message and len(message[-1]) < 4000 and any(map(str.isalpha, message[-1]))
    assert seen.status == 0 or readable, f"exit status 2 without a readable message:\n{stderr}"
    assert seen.status == 0 or not case.valid, f"a valid case was refused:\n{stderr}"
    named = " ".join(case.arguments)
    lost = [file for path in seen.changed if (file := str(path.relative_to(seen.folder))) not in named]
    assert not [file for file in lost if file.startswith("in/")], f"files of the user were changed: {lost}"
    for path in seen.created:
        assert path.suffix != ".partial", f"{path} was left"
        if path.name == "results.json":
            json.loads(path.read_text(encoding="utf-8"), parse_constant=_reject)
        elif path.name == "config.yaml":
            yaml.safe_load(path.read_text(encoding="utf-8"))


def _reject(constant: str) -> None:
    raise AssertionError(f"results.json has {constant}, which is not JSON")


# ---- the undamaged files of all cases: a small corpus, and a finished run of each family

LINES = [(f"{'a b c d e f'[: 1 + i % 11]} {i}", f"{'f e d c b a'[: 1 + i % 11]} {i}") for i in range(16)]
HELD_OUT = [("a b c 99", "c b a 99"), ("d 98", "d 98"), ("e f 97", "f e 97")]
SRC, TGT = "in/text.xx", "in/text.yy"
TINY = {
    "rnn": {"model": "rnn", "model.d_embedding": "8", "model.d_model": "8"},
    "transformer": {"model": "transformer", "model.d_model": "8", "model.d_ff": "8", "model.num_heads": "2",
                    "model.encoder_layers": "1", "model.decoder_layers": "1"},
}  # fmt: skip
PAIR, HELD_OUT_PAIR = f"[[{SRC},{TGT}]]", "[[in/held_out.xx,in/held_out.yy]]"
DATA = {
    "files": {"data.train": PAIR, "data.valid": HELD_OUT_PAIR, "data.test": HELD_OUT_PAIR},
    "synthetic": {"data.train": "40", "data.valid": "8", "data.test": "8", "data.long": "8"},
    "multi30k": {"data.root": "in/hub"},
    "tatoeba": {"data.root": "in/hub"},
}
BASE = {
    "trainer": "cpu", "trainer.max_epochs": "1", "trainer.max_steps": "1", "trainer.validate_every": "1",
    "callbacks.attention_maps.sentences": "0", "callbacks.sample_translations.sentences": "1", "logger": "none",
    "search": "greedy", "weights": "last", "batching.batch_tokens": "60", "cache_dir": "cache", "name": "run",
}  # fmt: skip
UNFINISHED = "runs/run/2026-01-01_00-00-00"
"""A copy of the RNN's run without results."""
TWO_STEPS = {"trainer.max_steps": "2", "trainer.keep_last": "2", "batching.batch_tokens": "30"}


def training(*settings: Mapping[str, str], words: Sequence[str] = (), valid: bool = True) -> Case:
    """A training on the corpus, with settings that replace earlier ones."""
    merged = {name: value for each in ({**BASE, "data": "files"}, *settings) for name, value in each.items()}
    return Case("train.py", (*(f"{name}={value}" for name, value in merged.items()), *words), valid=valid)


def sides(pairs: Sequence[tuple[str, str]]) -> list[bytes]:
    return ["".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1)]


def build_home(folder: Path) -> Path:
    """Write the corpus and train both models for two steps."""
    (folder / "in/hub").mkdir(parents=True)
    (folder / "in/gold.txt").write_text("0-0\n" * len(LINES))
    stems = {"in/text": LINES, **dict.fromkeys(("in/held_out", *(f"in/hub/{name}" for name in (
        "val", "test", "test_2016_flickr"))), HELD_OUT), "in/hub/train": LINES}  # fmt: skip
    for stem, pairs in stems.items():
        for suffix, side in zip(("en", "de") if "hub" in stem else ("xx", "yy"), sides(pairs), strict=True):
            (folder / f"{stem}.{suffix}").write_bytes(side)
    for family, tiny in TINY.items():
        with outcome(training(DATA["files"], tiny, TWO_STEPS, {"folder": f"in/{family}"}), folder, limit=120) as seen:
            assert seen.status == 0, seen.stderr
            shutil.copytree(seen.folder, folder, dirs_exist_ok=True)
    shutil.copytree(folder / "in/rnn", folder / UNFINISHED)
    (folder / UNFINISHED / "results.json").unlink()
    return folder
