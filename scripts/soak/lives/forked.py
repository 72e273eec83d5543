"""The ``heed`` program in forked processes, which can be killed at an event that repeats."""

import gc
import importlib
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRELOADED = (
    "hydra.core.override_parser.overrides_parser", "lightning.pytorch", "sacrebleu", "pyarrow.dataset", "datasets",
    "matplotlib.figure", "PIL.PngImagePlugin", "optuna", "ctranslate2", "transformers.models.marian.modeling_marian",
    "transformers.models.pegasus.modeling_pegasus", "fastapi.testclient", "heed.cli", "heed.launch.run",
    "heed.launch.grid", "heed.report", "heed.plot", "heed.inference.loading", "heed.sweep.search",
    "heed.serve.service", "heed.training.module", "heed.data.text.files_corpus", "heed.data.text.synthetic_corpus",
)  # fmt: skip
TIME_LIMIT = 240.0
"""Seconds after which a command counts as hanging."""
FILE_EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.link")


@dataclass(frozen=True)
class Done:
    """What a command left: its exit status (-9: killed), what it printed, and how many events it had."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str
    events: int
    seconds: float  # of the CPU


def preload() -> None:
    """Import what commands need, with one thread: a process that forks must not have had a parallel region.

    What is composed in this process, its children need not compose again.
    """
    for name in PRELOADED:
        importlib.import_module(name)
    import torch

    from tests.compositions import keep_compositions

    keep_compositions()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def heed(words: Sequence[str], folder: Path, *, kill: int | None = None, ranks: int = 1) -> Done:
    """Run ``heed WORDS`` in a folder.

    Args:
        kill: kill all its processes at this event, counted from 1: an optimizer step, or a file of the folder that
            is opened for writing, renamed or removed, in the first process.
        ranks: processes, as torchrun would start them.
    """
    from heed.cli import main

    return forked(lambda: main([*words]), tuple(words), folder, kill=kill, ranks=ranks)


def forked(
    call: Callable[[], int | None], words: tuple[str, ...], folder: Path, *, kill: int | None = None, ranks: int = 1
) -> Done:
    """Run a function as `heed` runs a command; None counts as status 0."""
    before, start = _cpu_seconds(), time.monotonic()
    log = folder / f".log-{time.monotonic_ns()}"
    log.mkdir(parents=True)
    counter = mmap.mmap(-1, 8)
    children: list[int] = []
    environment = _torchrun(ranks) if ranks > 1 else {}
    for rank in range(ranks):
        if (child := os.fork()) == 0:
            group = 0 if not children else children[0]
            os.setpgid(0, group)
            own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)} if environment else {}
            _become(call, folder, log / str(rank), own, counter if rank == 0 else None, kill)
        os.setpgid(child, children[0] if children else child)
        children.append(child)
    statuses = [_wait(child, children[0], start) for child in children]
    out, err = (
        "".join((log / f"{rank}.{name}").read_text(encoding="utf-8", errors="replace") for rank in range(ranks))
        for name in ("out", "err")
    )
    worst = min(statuses) if min(statuses) < 0 else max(statuses)
    (events,) = struct.unpack("q", counter[:])
    return Done(words, worst, out, err, events, _cpu_seconds() - before)


def _wait(child: int, group: int, start: float) -> int:
    """Return the exit status of a process, and abort all of its group that do not end."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - start > TIME_LIMIT:
            os.killpg(group, signal.SIGABRT)
        time.sleep(0.005)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _torchrun(ranks: int) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "soak",
    }  # fmt: skip


def _become(
    call: Callable[[], int | None],
    folder: Path,
    log: Path,
    environment: dict[str, str],
    counter: mmap.mmap | None,
    kill: int | None,
) -> None:
    """Run the function in this forked process, and end it."""
    status = 1
    try:
        os.chdir(folder)
        os.environ.update(environment)
        for number, name in ((0, os.devnull), (1, f"{log}.out"), (2, f"{log}.err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        for number, mode in enumerate(("r", "w", "w")):
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)
        if counter is not None:
            _count_events(folder, counter, kill)
        status = call() or 0
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def _count_events(folder: Path, counter: mmap.mmap, kill: int | None) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    here, own = str(folder.resolve()), threading.get_ident()

    def happened() -> None:
        (count,) = struct.unpack("q", counter[:])
        counter[:] = struct.pack("q", count + 1)
        if count + 1 == kill:
            os.killpg(0, signal.SIGKILL)

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        is_file = name in FILE_EVENTS or (name == "open" and arguments[2] and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        # Other threads write too, but when they do depends on the clock.
        if is_file and threading.get_ident() == own and here in str(Path(os.fsdecode(arguments[0])).absolute()):
            happened()

    sys.addaudithook(audit)
    register_optimizer_step_post_hook(lambda *_: happened())
