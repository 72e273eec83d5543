"""The processes of one run: detect their launcher, agree on the run's folder, claim it, and say how to resume."""

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from lightning.fabric.plugins.environments import ClusterEnvironment, SLURMEnvironment, TorchElasticEnvironment
from torch import distributed
from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

from heed.compat import is_running
from heed.errors import HeedError
from heed.files import remove_unfinished
from heed.launch import program_name, program_words
from heed.launch.compose import Command, quote
from heed.progress import is_first_process, print_line
from heed.run_format import RunFormatError
from heed.runs.checkpoints import latest_checkpoint
from heed.runs.folder import check_available, create, locked, newest_unfinished, remove_empty, remove_if_empty
from heed.training.callbacks.stopping import end_other_processes
from heed.training.nonfinite import DivergedError

PARENT = "HEED_PARENT_PROCESS"
"""Environment variable by which a process tells its number to those that Lightning starts from it: `watch_parent`."""
TIMEOUT = timedelta(minutes=5)
"""How long a process waits for the first one to claim a folder."""

_agreements = count(1)
"""Numbers the calls of `agree_on_folder` in this process: each call has a key of its own in the store."""


@dataclass(frozen=True)
class Launch:
    """What torchrun, SLURM or the user tells a process about its rank, in environment variables."""

    launcher: str
    rank: int
    world_size: int  # 0 if Lightning starts the other processes of each node
    address: str
    port: int


def detect_launch() -> Launch | None:
    """Return how torchrun, SLURM or a user on several nodes launch this process; None for Lightning's own launcher.

    Raises:
        HeedError: if the SLURM job does not say how many tasks a node has.
    """
    found: ClusterEnvironment
    if TorchElasticEnvironment.detect():
        name, found = "torchrun", TorchElasticEnvironment()
    elif SLURMEnvironment.detect():
        try:
            name, found = "srun", SLURMEnvironment()
        except RuntimeError as error:  # --ntasks without --ntasks-per-node
            raise HeedError(f"Lightning rejects this SLURM job: {error}") from error
    elif {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} <= os.environ.keys() and "LOCAL_RANK" not in os.environ:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        return Launch("NODE_RANK", int(os.environ["NODE_RANK"]), 0, address, port)
    else:
        return None
    return Launch(name, found.global_rank(), found.world_size(), found.main_address, found.main_port)


def check_world_size(world_size: int, launch: Launch | None = None) -> None:
    """Raise a HeedError unless the trainer uses all processes of the launcher: each would train the whole model."""
    launch = launch or detect_launch()
    if launch is not None and launch.world_size not in (0, world_size):
        raise HeedError(
            f"{launch.launcher} started {launch.world_size} processes, but the trainer is for {world_size}: "
            "add trainer=ddp (GPUs) or trainer=ddp_cpu, trainer.devices=PROCESSES_PER_NODE and "
            "trainer.num_nodes=NODES."
        )


def leave_process_group() -> None:
    """Destroy torch's process group, if there is one: threads of gloo may abort a process that exits with one."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def watch_parent() -> None:
    """Exit with status 2 and a message if the parent of this process ends before the process group exists.

    Torch would wait half an hour for it. Later, exchanges with an ended process fail.
    """
    parent = int(os.environ.get(PARENT, os.getppid()))

    def watch() -> None:
        while not distributed.is_initialized():
            if not is_running(parent):
                message = f"{program_name()}: The first process of this run has ended: see its output."
                print(message, file=sys.stderr, flush=True)  # print_line prints in the first process only
                os._exit(2)
            time.sleep(1)

    threading.Thread(target=watch, daemon=True).start()


def agree_on_folder(launch: Launch | None, claim: Callable[[], Path]) -> Path:
    """Call ``claim`` in the first process, and return the folder it claims in every process.

    All processes of a launch must call this function equally often. Raise a HeedError if the first one does not answer.
    """
    number = next(_agreements)
    if launch is None or launch.world_size == 1:
        return claim()
    # After a failure, torchrun restarts all processes and keeps its store.
    key = f"heed/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/folder/{number}"
    try:
        if launch.rank == 0:
            folder = claim()
            _store(launch).set(key, str(folder))
            return folder
        return Path(_store(launch).get(key).decode())
    except DistError as error:
        raise HeedError(
            f"Process {launch.rank} waited {TIMEOUT.seconds // 60} minutes for process 0 at "
            f"{launch.address}:{launch.port} to claim a run folder: check why process 0 ended or hangs."
        ) from error


@cache
def _store(launch: Launch) -> TCPStore:
    """Return the key-value store of a run: torchrun's, or one that process 0 serves, later also to Lightning."""
    is_server = launch.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    options: Any = {"is_master": is_server, "timeout": TIMEOUT, "wait_for_workers": False, "multi_tenant": True}
    return TCPStore(launch.address, launch.port, **options)


# ---- the folder


@contextmanager
def claim_folder(command: Command) -> Iterator[Path]:
    """Claim the run's folder for the block; if the block fails, print how to resume the run.

    The folder is a new one in ``runs/NAME``; with ``resume=true`` the newest unfinished one there; or the folder that
    the command names. The first process claims and locks it for all processes of the run.

    Raises:
        HeedError: if another process trains in the folder, or the run cannot start or resume there.
    """
    launch, is_first, is_new, resume = detect_launch(), is_first_process(), False, command.options["resume"]
    with ExitStack() as lock:

        def claim() -> Path:
            nonlocal is_new
            home = command.home
            folder = command.folder or (newest_unfinished(home) if resume else create(home))
            is_new = not folder.is_dir() or not any(folder.iterdir())
            lock.callback(remove_empty, home)
            lock.callback(remove_empty, folder)  # after the lock, whose file Windows removes with its release
            lock.enter_context(locked(folder))
            check_available(folder, resume=resume)
            for part in ("", "checkpoints", "model"):
                remove_unfinished(folder / part)
            return folder

        if launch or is_first:
            folder = agree_on_folder(launch, claim)
            os.environ[PARENT] = str(os.getpid())
            # Lightning starts the other processes of the run with this command line.
            sys.argv = [sys.argv[0], *command.words, *command.presets, f"hydra.run.dir={quote(folder)}"]
        else:
            assert command.folder is not None
            folder = command.folder
            watch_parent()
        try:
            yield folder
        except BaseException as error:
            if is_first:
                end_other_processes()
                report_on_failure(folder, error, resumed=resume, is_new=is_new)
            raise


def report_on_failure(folder: Path, error: BaseException, *, resumed: bool, is_new: bool) -> None:
    """Print the last checkpoint and the command that resumes the run; remove the folder of a run that wrote nothing.

    An error of the user in a resumed run is not answered with the same command. Only a folder that ``is_new``, which
    was empty when the run claimed it, is removed.
    """
    if checkpoint := latest_checkpoint(folder):
        command = shlex.join([*program_words(), f"resume={folder}"])
        text = f"The last checkpoint is {checkpoint}. To resume: {command}"
    else:
        if is_new:
            remove_if_empty(folder)
        text = f"{folder} holds no checkpoint to resume from." if folder.exists() else ""
    says_how = isinstance(error, HeedError if resumed else (DivergedError, RunFormatError))
    if text and not says_how:
        print_line(text)
