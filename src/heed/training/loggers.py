"""Where metrics go besides ``metrics.csv``. The one file that knows wandb."""

import os
import secrets
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger


def wandb_logger(*, folder: Path, config: dict[str, Any], project: str, mode: str) -> list[Logger]:
    """Weights & Biases: ``mode`` auto is online where somebody is logged in and offline elsewhere, never a prompt."""
    # The background process of wandb has news of its own; ours are on the screen already.
    os.environ.setdefault("WANDB_SILENT", "true")
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
    return [TensorBoardLogger(save_dir=folder, name="tensorboard", version="")]


def csv_logger(*, folder: Path, config: dict[str, Any]) -> list[Logger]:
    """Lightning's own CSV log, speeds included, beside ``metrics.csv``."""
    return [CSVLogger(save_dir=folder, name="log", version="")]


def no_logger(*, folder: Path, config: dict[str, Any]) -> list[Logger]:
    """``metrics.csv`` alone."""
    return []


def _run_id(folder: Path) -> str:
    """One id per run folder, the same when the run resumes."""
    path = folder / "wandb" / "id"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(4))
    return path.read_text().strip()


def _logged_in() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return False
    import wandb

    try:
        return bool(wandb.login(prompt=False))
    except Exception:  # an unreadable home, a malformed key: nobody is logged in
        return False
