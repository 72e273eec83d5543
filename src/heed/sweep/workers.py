"""Run several workers of a study on this machine, each a process with a part of the devices."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from heed.compat import WINDOWS, usable_cores
from heed.errors import HeedError
from heed.launch import program
from heed.progress import print_line
from heed.training.callbacks.signals import REPEATED_SIGTERM

POLL_SECONDS = 2.0


def run_workers(count: int, folder: Path, *, watch: Callable[[], None]) -> None:
    """Start this process's command ``count`` times with one worker each, and wait for the workers.

    They print to ``worker-N.log`` in the study's folder. If a worker is killed, another one takes over its trial.
    ``watch`` is called every few seconds to print the trials that have ended.

    Raises:
        HeedError: if every worker failed, with the last line of one log.
    """
    logs = [folder / f"worker-{number}.log" for number in range(count)]
    print_line(f"{count} workers print to {logs[0]} and so on. This terminal shows the results of trials.")
    workers = [_start(number, count, log) for number, log in enumerate(logs)]
    try:
        while any(worker.poll() is None for worker in workers):
            time.sleep(POLL_SECONDS)
            watch()
    except BaseException as error:
        # Ctrl-C in a terminal reaches the workers too. They count both signals as one, save a checkpoint and queue
        # their trials. On Windows, terminate() would kill them first.
        if not (WINDOWS and isinstance(error, KeyboardInterrupt)):
            for worker in workers:
                worker.terminate()
        for worker in workers:
            worker.wait()
        raise
    watch()
    if all(worker.returncode for worker in workers):
        last = logs[0].read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise HeedError(f"All workers failed, see {logs[0]}: {' '.join(last)}")


def _start(number: int, count: int, log: Path) -> "subprocess.Popen[bytes]":
    program_words = ["-m", "heed.launch"] if sys.argv[0] == program.HEED_TRAIN else [sys.argv[0]]
    words = [word for word in sys.argv[1:] if not word.startswith("sweep.workers=")]
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, *program_words, *words, "sweep.workers=1"],
            env={**os.environ, **worker_devices(number, count), REPEATED_SIGTERM: "1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def ignore_repeated_sigterm() -> None:
    """Make a worker ignore SIGTERM after a Ctrl-C, as `StopOnSignal` does during training."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    if REPEATED_SIGTERM in os.environ:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, interrupt)


def worker_devices(number: int, count: int) -> dict[str, str]:
    """Return the environment that gives one of ``count`` workers its part of the GPUs, or of the CPU cores.

    With more workers than GPUs, several workers share one.
    """
    import torch

    gpus = torch.cuda.device_count()
    if gpus:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
        return {"CUDA_VISIBLE_DEVICES": ",".join(visible[number::count] or [visible[number % gpus]])}
    cores = usable_cores()
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores // count)))}
