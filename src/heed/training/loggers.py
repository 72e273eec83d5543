"""Where metrics go besides ``metrics.csv``. The one file that knows wandb."""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from heed.errors import HeedError


def wandb_logger(
    *, folder: Path, config: dict[str, Any], project: str, mode: Literal["auto", "online", "offline"]
) -> list[Logger]:
    """Weights & Biases: ``mode`` auto is online where somebody is logged in and offline elsewhere, never a prompt."""
    import wandb

    # The background process of wandb has news of its own; ours are on the screen already.
    os.environ.setdefault("WANDB_SILENT", "true")
    _do_without_home(folder)
    if rank_zero_only.rank == 0:
        wandb.setup()  # reads the environment before anything has a reason to speak
    offline = mode == "offline" or (mode == "auto" and not _logged_in())
    return [
        WandbLogger(
            name=f"{config['name']} seed {config['seed']}",
            project=project,
            save_dir=folder,
            id=_run_id(folder),
            resume="allow",
            offline=offline,
            mode="offline" if offline else "online",  # asking who is logged in has made wandb read its environment
            config=config,
        )
    ]


def tensorboard_logger(*, folder: Path, config: dict[str, Any]) -> list[Logger]:
    """TensorBoard event files in the run folder."""
    try:
        return [TensorBoardLogger(save_dir=folder, name="tensorboard", version="")]
    except ModuleNotFoundError as error:
        raise HeedError(
            "logger=tensorboard needs a package that is not installed: run `pip install 'heed[tensorboard]'`, "
            "or choose logger=wandb, csv or none."
        ) from error


def csv_logger(*, folder: Path, config: dict[str, Any]) -> list[Logger]:
    """Lightning's own CSV log, speeds included, beside ``metrics.csv``."""
    return [CSVLogger(save_dir=folder, name="log", version="")]


def no_logger(*, folder: Path, config: dict[str, Any]) -> list[Logger]:
    """``metrics.csv`` alone."""
    return []


@rank_zero_only
def log_images(loggers: Iterable[Logger], key: str, images: Mapping[str, Path], *, step: int) -> None:
    """Picture files, each as ``key/name``, to the loggers that can show them."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            import wandb

            shown = {f"{key}/{name}": wandb.Image(str(path)) for name, path in images.items()}
            logger.log_metrics(shown, step=step)
        elif isinstance(logger, TensorBoardLogger):
            for name, path in images.items():
                logger.experiment.add_image(f"{key}/{name}", _pixels(path), step, dataformats="HWC")


@rank_zero_only
def log_table(
    loggers: Iterable[Logger], key: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, step: int
) -> None:
    """A table, to the loggers that can show one: wandb has tables, TensorBoard reads Markdown."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.log_table(key, columns=list(columns), data=[list(row) for row in rows], step=step)
        elif isinstance(logger, TensorBoardLogger):
            logger.experiment.add_text(key, _markdown(columns, rows), step)


@rank_zero_only
def log_results(loggers: Iterable[Logger], results: Mapping[str, Any]) -> None:
    """What the whole run came to, to the loggers with a place for it: wandb's summary, a text in TensorBoard."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.summary["results"] = dict(results)
        elif isinstance(logger, TensorBoardLogger):
            logger.experiment.add_text("results", f"```\n{json.dumps(results, indent=2, ensure_ascii=False)}\n```")


@contextmanager
def closing(loggers: Iterable[Logger]) -> Iterator[None]:
    """Ends what was logged with the block, as failed where that fails: the next job of a sweep begins its own."""
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        if any(isinstance(logger, WandbLogger) for logger in loggers):
            import wandb

            wandb.finish(exit_code=exit_code)


def _pixels(path: Path) -> Any:
    """The picture as a uint8 array, "height width RGB"."""
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _run_id(folder: Path) -> str:
    """One id per run folder, the same when the run resumes."""
    path = folder / "wandb" / "id"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(4))
    return path.read_text().strip()


def _do_without_home(folder: Path) -> None:
    """Where nobody can write to the home directory, what wandb would put there goes to the run's folder."""
    from wandb import env

    for name, path in ((env.DATA_DIR, Path(env.get_data_dir())), (env.CACHE_DIR, env.get_cache_dir())):
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            os.environ[name] = str(folder / "wandb")


@rank_zero_only  # a run's other processes log nothing, and leave wandb alone
def _logged_in() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return False
    import wandb

    try:
        return bool(wandb.login(prompt=False))
    except Exception:  # an unreadable home, a malformed key: nobody is logged in
        return False
