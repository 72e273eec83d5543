"""The processes of one run: detect their launcher, and let them agree on the run's folder."""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import lightning as L
from lightning.fabric.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
from lightning.pytorch.utilities import rank_zero_only
from torch import distributed
from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

from heed.compat import is_running
from heed.errors import HeedError
from heed.launch import program

PARENT = "HEED_PARENT_PROCESS"
"""Environment variable with the number of the process whose children Lightning's launcher starts."""

TIMEOUT = timedelta(minutes=5)
"""How long a process waits for the first one to claim a folder."""


@dataclass(frozen=True)
class Launch:
    """What torchrun, SLURM or the user tells a process about its rank, in environment variables."""

    launcher: str
    rank: int
    world_size: int
    address: str
    port: int
    store_exists: bool = False
    """Whether the launcher serves a key-value store at this address, as torchrun does."""
    attempt: str = "0"
    """The restart count of torchrun, which restarts all processes after a failure and keeps its store."""


def is_first_process(launch: Launch | None) -> bool:
    """Return whether this is process 0 of its run, the only one that writes to the run folder."""
    return rank_zero_only.rank in (None, 0) if launch is None else launch.rank == 0


def detect_launch() -> Launch | None:
    """Return how torchrun, SLURM or a user on several nodes started this process; None for Lightning's own launcher.

    Lightning's launcher passes the run folder to the processes it starts on their command line.

    Raises:
        HeedError: if the SLURM job does not say how many tasks a node has.
    """
    env = os.environ
    if TorchElasticEnvironment.detect():
        elastic = TorchElasticEnvironment()
        return Launch(
            "torchrun",
            elastic.global_rank(),
            elastic.world_size(),
            elastic.main_address,
            elastic.main_port,
            store_exists=env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            attempt=env.get("TORCHELASTIC_RESTART_COUNT", "0"),
        )
    if SLURMEnvironment.detect():
        try:
            slurm = SLURMEnvironment()
        except RuntimeError as error:  # --ntasks without --ntasks-per-node
            raise HeedError(f"Lightning rejects this SLURM job: {error}") from error
        return Launch("srun", slurm.global_rank(), slurm.world_size(), slurm.main_address, slurm.main_port)
    if {"MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} <= env.keys() and "LOCAL_RANK" not in env:
        # World size 0: Lightning starts the other processes of each node.
        return Launch("NODE_RANK", int(env["NODE_RANK"]), 0, env["MASTER_ADDR"], int(env["MASTER_PORT"]))
    return None


def check_world_size(trainer: L.Trainer, launch: Launch | None) -> None:
    """Check that the trainer uses all processes of the launcher, instead of training the whole model in each of them.

    Raises:
        HeedError: if it does not.
    """
    if launch is not None and launch.world_size not in (0, trainer.world_size):
        raise HeedError(
            f"{launch.launcher} started {launch.world_size} processes, but the trainer is for {trainer.world_size}: "
            "add trainer=ddp (GPUs) or trainer=ddp_cpu, trainer.devices=PROCESSES_PER_NODE and "
            "trainer.num_nodes=NODES."
        )


def leave_process_group() -> None:
    """Destroy torch's process group, if there is one: threads of gloo may abort a process that exits with one."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def announce_parent() -> None:
    """Tell the processes that Lightning will start from this one its number, for `watch_parent`."""
    os.environ[PARENT] = str(os.getpid())


def watch_parent() -> None:
    """Exit with status 2 and a message if the parent of this process ends before the process group exists.

    Torch would wait half an hour for it. Once the group exists, exchanges with an ended process fail.
    """
    parent = int(os.environ.get(PARENT, os.getppid()))

    def watch() -> None:
        while not distributed.is_initialized():
            if not is_running(parent):
                message = f"{program.name()}: The first process of this run has ended: see its output."
                print(message, file=sys.stderr, flush=True)  # print_line prints in the first process only
                os._exit(2)
            time.sleep(1)

    threading.Thread(target=watch, daemon=True).start()


_agreements = 0
"""Calls of `agree_on_folder` in this process: each call has a key of its own in the store."""


def agree_on_folder(launch: Launch | None, claim: Callable[[], Path]) -> Path:
    """Call ``claim`` in the first process, and return the folder it claims in every process.

    All processes of a launch must call this function the same number of times, in the same order.

    Raises:
        HeedError: if the first process does not answer in time.
    """
    global _agreements
    _agreements += 1
    if launch is None or launch.world_size == 1:
        return claim()
    key = f"heed/{launch.attempt}/folder/{_agreements}"
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


_stores: dict[tuple[str, int], TCPStore] = {}


def _store(launch: Launch) -> TCPStore:
    """Return the launch's key-value store. Process 0 serves it, later also for Lightning's process group."""
    address = launch.address, launch.port
    if address not in _stores:
        _stores[address] = TCPStore(
            *address,
            is_master=launch.rank == 0 and not launch.store_exists,
            timeout=TIMEOUT,
            wait_for_workers=False,
            multi_tenant=True,
        )
    return _stores[address]
