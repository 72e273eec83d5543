"""Run several workers of a study on this machine, each a process with a part of the devices."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from heed.compat import WINDOWS, usable_cores
from heed.errors import HeedError
from heed.launch import HEED_TRAIN
from heed.progress import print_line

WATCH_SECONDS = 2.0


def run_workers(count: int, folder: Path, *, watch: Callable[[], None]) -> None:
    """Start this process's command ``count`` times with one worker each, and wait for the workers.

    They print to ``worker-N.log`` in the study's folder. If a worker is killed, another one takes over its trial.
    ``watch`` is called every few seconds to print the trials that have ended.

    Raises:
        HeedError: if every worker failed, with the last line of one log.
    """
    logs = [folder / f"worker-{number}.log" for number in range(count)]
    print_line(f"{count} workers print to {logs[0]} and so on. This terminal shows the results of trials.")
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    workers = [_start(number, count, log) for number, log in enumerate(logs)]
    try:
        while any(worker.poll() is None for worker in workers):
            time.sleep(WATCH_SECONDS)
            watch()
    except BaseException as error:
        # On Windows, Ctrl-C has reached the workers, and terminate() would kill them before they save a checkpoint.
        _stop(workers, is_told=WINDOWS and isinstance(error, KeyboardInterrupt))
        raise
    watch()
    if all(worker.returncode for worker in workers):
        last = logs[0].read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise HeedError(f"All workers failed, see {logs[0]}: {' '.join(last)}")


def _stop(workers: Sequence["subprocess.Popen[bytes]"], *, is_told: bool) -> None:
    """Stop the workers, which save a checkpoint and queue their trials; another Ctrl-C ends them immediately."""
    try:
        for worker in workers if not is_told else []:
            worker.terminate()
        for worker in workers:
            worker.wait()
    except KeyboardInterrupt:
        _stop(workers, is_told=is_told)


def _start(number: int, count: int, log: Path) -> "subprocess.Popen[bytes]":
    program_words = ["-m", "heed.launch"] if sys.argv[0] == HEED_TRAIN else [sys.argv[0]]
    words = [word for word in sys.argv[1:] if not word.startswith("sweep.workers=")]
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, *program_words, *words, "sweep.workers=1"],
            env={**os.environ, **worker_devices(number, count)},
            start_new_session=True,  # Ctrl-C in a terminal reaches only this process, which stops them
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


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
