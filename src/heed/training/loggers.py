"""Experiment loggers, and the only module that imports wandb. ``metrics.csv`` is independent of them."""

import os
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from heed.errors import missing_package
from heed.files import write_file
from heed.progress import print_line
from heed.runs.config import read_varied_overrides

MAX_WANDB_NAME = 128
"""Characters that wandb allows in the name of a run or group."""


class StepLogger(WandbLogger):
    """Logs to wandb with the optimizer step as wandb's own step.

    wandb would count the calls from 0 in each part of an interrupted run: one part would replace rows of another.
    """

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        values = dict(metrics) if step is None else {**metrics, "trainer/global_step": step}
        self.experiment.log(values, step=step)


def wandb_logger(
    *, folder: Path, config: dict[str, Any], project: str, mode: Literal["auto", "online", "offline"]
) -> Logger:
    """Build the Weights & Biases logger, in the first process of a run.

    Args:
        folder: of the run.
        config: all options of the run.
        mode: "auto" is online if the user is logged in, and offline otherwise. wandb never prompts.
    """
    import wandb

    # heed prints the progress itself.
    os.environ.setdefault("WANDB_SILENT", "true")
    _replace_unwritable_directories(folder)
    wandb.setup()  # reads WANDB_SILENT before wandb prints anything
    offline = mode == "offline" or (mode == "auto" and not _logged_in())
    id_file = folder / "wandb" / "id"
    if not id_file.exists():  # a resumed run keeps its id
        id_file.parent.mkdir(parents=True, exist_ok=True)
        write_file(id_file, secrets.token_hex(4))
    name, group = run_names(folder)
    return StepLogger(
        name=name,
        group=group,
        project=project,
        save_dir=folder,
        id=id_file.read_text(encoding="utf-8"),
        resume="allow",
        offline=offline,
        mode="offline" if offline else "online",  # wandb.login has read WANDB_MODE: override it
        config=config,
    )


def tensorboard_logger(*, folder: Path, config: dict[str, Any]) -> Logger:
    """Build the TensorBoard logger, which writes event files with the metrics to the run folder.

    Raises:
        HeedError: if TensorBoard is not installed.
    """
    try:
        return TensorBoardLogger(save_dir=folder, name="tensorboard", version="")
    except ModuleNotFoundError as error:
        raise missing_package(
            "logger=tensorboard", "tensorboard", "tensorboard", otherwise="choose logger=wandb, csv or none"
        ) from error


def csv_logger(*, folder: Path, config: dict[str, Any]) -> Logger:
    """Build Lightning's CSV logger, which logs more than ``metrics.csv``: speed and padding, for example.

    A resumed run writes another file, because this logger replaces what is there.
    """
    return CSVLogger(save_dir=folder, name="log")


@rank_zero_only
def log_images(loggers: Iterable[Logger], key: str, images: Mapping[str, Path], *, step: int) -> None:
    """Log picture files as ``key/name`` to wandb."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            import wandb

            logger.log_metrics({f"{key}/{name}": wandb.Image(str(path)) for name, path in images.items()}, step=step)


@rank_zero_only
def log_table(
    loggers: Iterable[Logger], key: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, step: int
) -> None:
    """Log a table to wandb."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_table(key, columns=list(columns), data=[list(row) for row in rows], step=step)


@rank_zero_only
def log_results(loggers: Iterable[Logger], results: Mapping[str, Any]) -> None:
    """Log the content of ``results.json`` to the summary of wandb."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.summary["results"] = dict(results)


@contextmanager
def closing(loggers: Iterable[Logger]) -> Iterator[None]:
    """Close the loggers after the block, and mark the wandb run as failed if the block raises.

    Print the command that uploads an offline wandb run. The next job of a sweep can then start its own run.
    """
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        if any(isinstance(logger, WandbLogger) for logger in loggers):
            import wandb

            run = wandb.run
            wandb.finish(exit_code=exit_code)
            if run is not None and run.offline:
                # An interrupted run has a folder for each part.
                folders = sorted(Path(run.settings.sync_dir).parent.glob(f"offline-run-*-{run.id}"))
                print_line(f"Upload:   wandb sync {shlex.join(map(str, folders))}")


def run_names(folder: Path) -> tuple[str, str]:
    """Return the name and the group in wandb of the run in ``folder``: the folder and its parent, without ``runs/``.

    The name of a job of a grid ends with the settings that the grid varies ("grid/2026-01-31/0_rnn model=rnn seed=1").
    """
    parts = folder.absolute().parts
    start = len(parts) - parts[::-1].index("runs") if "runs" in parts[:-2] else -2
    path = "/".join(parts[start:])
    name = " ".join([path, *(read_varied_overrides(folder) or ())])
    return name[:MAX_WANDB_NAME], path.rpartition("/")[0][:MAX_WANDB_NAME]


def _replace_unwritable_directories(folder: Path) -> None:
    """Let wandb write to the run folder where it cannot write to the home directory."""
    from wandb import env

    for name, path in ((env.DATA_DIR, Path(env.get_data_dir())), (env.CACHE_DIR, env.get_cache_dir())):
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            os.environ[name] = str(folder / "wandb")


def _logged_in() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return False
    import wandb

    with suppress(Exception):  # an unreadable home directory or a malformed key, for example
        return bool(wandb.login(prompt=False))
    return False
