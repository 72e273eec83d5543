"""Claim the folder of a run for all of its processes, and print how to resume the run after a failure."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf, read_write

from heed.errors import HeedError
from heed.files import remove_unfinished, write_file
from heed.launch import program
from heed.launch.compose import Command, quote
from heed.launch.processes import PARENT, agree_on_folder, detect_launch, watch_parent
from heed.progress import is_first_process, print_line
from heed.run_format import RunFormatError
from heed.runs.checkpoints import latest_checkpoint
from heed.runs.claim import create, locked, remove_empty, remove_if_empty
from heed.runs.config import HYDRA_FOLDER
from heed.runs.folder import check_available, newest_unfinished
from heed.training.callbacks.signals import end_other_processes
from heed.training.nonfinite import DivergedError


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
        command = shlex.join([*program.command(), f"resume={folder}"])
        text = f"The last checkpoint is {checkpoint}. To resume: {command}"
    else:
        if is_new:
            remove_if_empty(folder)
        text = f"{folder} holds no checkpoint to resume from." if folder.exists() else ""
    says_how = isinstance(error, HeedError if resumed else (DivergedError, RunFormatError))
    if text and not says_how:
        print_line(text)


def write_record(folder: Path, command: Command) -> None:
    """Write ``.hydra/{config,hydra,overrides}.yaml`` in the first process.

    Hydra itself would do so before heed has claimed the folder.
    """
    if not is_first_process():
        return
    cfg = command.record
    with read_write(cfg.hydra):
        cfg.hydra.run.dir = cfg.hydra.runtime.output_dir = str(folder)
    composed = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
    nodes: dict[str, Any] = {"config": composed, "hydra": {"hydra": cfg.hydra}, "overrides": list(command.words)}
    (folder / HYDRA_FOLDER).mkdir(exist_ok=True)
    for name, node in nodes.items():
        write_file(folder / HYDRA_FOLDER / f"{name}.yaml", OmegaConf.to_yaml(OmegaConf.create(node)))
