"""The folder of a run, ``runs/NAME/TIME``: create, lock and find it, check what it holds, and write its files.

No two runs ever write to the same folder.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Literal

from heed.errors import HeedError
from heed.files import write_file, writing
from heed.progress import is_first_process
from heed.run_format import check_run_format
from heed.runs.checkpoints import CHECKPOINTS, FORMAT_KEY, METRICS_FILE, latest_checkpoint
from heed.runs.config import HYDRA_FOLDER, RUN_CONFIG, changed_options, find_config, read_config, write_config
from heed.runs.results import FACTS_FILE, PRUNED, RESULTS

if TYPE_CHECKING:  # `heed runs` answers before torch is imported
    from torch import Tensor

    from heed.data.text.source import Sentences

LOCK = ".lock"
"""A file in the run folder that is locked while a process trains there. The lock ends with the process."""
FAILURE = "failure.txt"
"""Written to the folder of a run that failed: the reason in the first line, then the traceback."""

RunState = Literal["finished", "pruned", "running", "failed", "interrupted"]


def create(parent: Path, now: str | None = None) -> Path:
    """Create a new folder in ``parent``, named after the time (``YYYY-MM-DD_hh-mm-ss``), with a suffix if it exists.

    `creation_order` sorts these folders. If the clock was set back, the name is the newest folder's name with the next
    suffix.
    """
    now = now or f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            time, number = max((creation_order(path) for path in parent.iterdir()), default=("", 0))
            name = now if now > time else f"{time}-{number + 1}"
            try:
                (parent / name).mkdir()
            except FileExistsError:  # another process has created it
                continue
            return parent / name


def creation_order(folder: Path) -> tuple[str, int]:
    """Return a sort key of folders made by `create`; folders with other names sort first."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)(?:-(\d+))?", folder.name)
    return (match[1], int(match[2] or 1)) if match else ("", 0)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder's lock within the block; raise a HeedError if another process holds it."""
    from filelock import FileLock, Timeout

    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / LOCK, timeout=1).acquire()  # `is_locked` may hold it for a moment
    except Timeout as error:
        raise HeedError(
            f"{folder} is in use by another training process: wait until it ends, stop it, or name another run with "
            "name=NAME or folder=DIR."
        ) from error
    with lock:
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process of this machine trains in a folder."""
    from filelock import FileLock, Timeout

    try:
        if (folder / LOCK).exists():
            FileLock(folder / LOCK, blocking=False).acquire().lock.release()
    except OSError as error:  # another process holds the lock, or the folder may only be read
        return isinstance(error, Timeout)
    return False


def find_state(run: Path, *, is_running: bool | None = None) -> tuple[RunState, str]:
    """Return the state of a run, or of a copy of its folder, and why it failed.

    ``is_running`` says whether a process trains there; None: find out.
    """
    if (run / RESULTS).is_file():
        return "finished", ""
    if (run / PRUNED).is_file():
        return "pruned", ""
    if is_locked(run) if is_running is None else is_running:
        return "running", ""
    if (run / FAILURE).is_file():
        return "failed", (run / FAILURE).read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    return "interrupted", ""


def remove_if_empty(folder: Path) -> None:
    """Remove the folder of a run that ended before it wrote metrics, unless it holds other files."""
    if not (folder / METRICS_FILE).exists():
        hydra = [f"{HYDRA_FOLDER}/{name}.yaml" for name in ("config", "hydra", "overrides")]
        for file in (RUN_CONFIG, FACTS_FILE, "wandb/id", LOCK, *hydra):
            with suppress(PermissionError):  # on Windows, releasing the lock removes it
                (folder / file).unlink(missing_ok=True)
    for path in (folder / "wandb", folder / HYDRA_FOLDER, folder):
        remove_empty(path)


def remove_empty(folder: Path) -> None:
    """Remove an empty folder."""
    with suppress(OSError):  # not empty
        folder.rmdir()


# ---- files


class RunFolder:
    """The folder of a run and the config of the run."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = config

    def open(self) -> Path | None:
        """Check that the run can start with its config, and return the checkpoint of `starting_checkpoint`.

        The first process of the run writes ``config.yaml``.
        """
        checkpoint = starting_checkpoint(self.path, self.config)
        if self.config["resume"]:
            # Keep the record of the weights that the run started from.
            self.config = {**self.config, "ckpt_path": read_config(self.path).get("ckpt_path")}
        if is_first_process():
            write_config(self.path, self.config)
            (self.path / FAILURE).unlink(missing_ok=True)  # of the process that is resumed
        return checkpoint

    def write_translations(self, split: str, text: "Sentences", translations: list[str]) -> None:
        """Write ``translations/<split>.{src,ref,hyp}``, one sentence per line, and annotations to ``.meta.jsonl``."""
        folder = self.path / "translations"
        folder.mkdir(exist_ok=True)
        for suffix, lines in {"src": text.src, "ref": text.tgt, "hyp": translations, "meta.jsonl": text.meta}.items():
            if lines is not None:
                write_file(folder / f"{split}.{suffix}", "".join(f"{line}\n" for line in lines))


def write_failure(run: Path, reason: str, error: BaseException) -> None:
    """Write ``failure.txt``: the reason in the first line, then the traceback."""
    write_file(run / FAILURE, f"{reason}\n\n{''.join(format_exception(error))}")


def validation_files(path: Path, directions: Sequence[str]) -> dict[str, tuple[Path, Path]]:
    """Return the source and reference file of a run's validation set in each direction that has one.

    Args:
        path: the run, or its model folder.
        directions: the model's directions, such as "en-de". A single validation set is called "valid" and has the first
            direction.
    """
    names = {"valid": directions[0], **{f"valid-{direction}": direction for direction in directions}}
    found = {}
    for folder in (path.parent / "translations", path / "translations"):
        for name, direction in names.items():
            src, ref = folder / f"{name}.src", folder / f"{name}.ref"
            if src.is_file() and ref.is_file():
                found[direction] = src, ref
    return found


# ---- resumed runs


def newest_unfinished(parent: Path) -> Path:
    """Return the newest folder in ``parent`` with a checkpoint folder and no results, or raise a HeedError."""
    started = [path for path in parent.glob("*/") if (path / CHECKPOINTS).is_dir()]
    unfinished = [path for path in started if not (path / RESULTS).exists()]
    if not unfinished:
        raise HeedError(
            f"resume=true found no unfinished run with a checkpoint in {parent}. "
            "Leave out resume=true to start a run, or name another one with name=NAME or folder=DIR."
        )
    return max(unfinished, key=lambda path: (creation_order(path), path.name))


def check_available(folder: Path, *, resume: bool) -> None:
    """Raise a HeedError if the folder holds a finished run or, without ``resume``, any run or another config.yaml."""
    finished = (folder / RESULTS).exists()
    if resume and finished:
        raise HeedError(
            f"The run in {folder} is finished. To train its model further, leave out resume=true and start a new run "
            "with ckpt_path= and one of its checkpoints."
        )
    if not resume and (finished or any((folder / CHECKPOINTS).glob("*.ckpt"))):
        raise HeedError(
            f"{folder} already holds a run: add resume=true to continue it, or name another folder with folder=DIR."
        )
    if not resume and (folder / RUN_CONFIG).exists() and find_config(folder) is None:
        raise HeedError(
            f"{folder / RUN_CONFIG} does not belong to a run and would be replaced: name another folder with "
            "folder=DIR."
        )


def starting_checkpoint(folder: Path, config: Mapping[str, Any]) -> Path | None:
    """Return the checkpoint from which a run starts, if any: ``ckpt_path``, or with ``resume`` the latest one.

    Raises:
        HeedError: if options of a resumed run have changed, or the checkpoint is missing.
    """
    if config["resume"]:
        if changed := changed_options(read_config(folder), config):
            raise HeedError(
                f"resume=true: {', '.join(changed)} must be as in {folder / RUN_CONFIG}. "
                "Give the same options, or start a new run from its checkpoint with ckpt_path=."
            )
        checkpoint = latest_checkpoint(folder)
    else:
        checkpoint = Path(config["ckpt_path"]) if config["ckpt_path"] else None
    if checkpoint and not checkpoint.is_file():
        raise HeedError(f"There is no checkpoint {checkpoint} (relative paths start at {Path.cwd()}).")
    return checkpoint


def adopt_checkpoint(checkpoint: dict[str, Any], *, is_mixture: bool) -> None:
    """Prepare another run's checkpoint for a new run (``ckpt_path=``), whose text and options may differ.

    Dropped: which validations were the best, by another metric or text. A mixture continues at the step, even if the
    other text was none. `CountTexts` keeps the counts of the texts of the same name. Everything else is kept.
    """
    for callback in ("Checkpoints", "EarlyStopping"):
        checkpoint["callbacks"].pop(callback, None)
    if is_mixture:
        checkpoint["TranslationData"].update(epoch=0, step=checkpoint["global_step"])


def check_resumable(
    checkpoint: Mapping[str, Any],
    path: Path,
    *,
    weights: "Mapping[str, Tensor]",
    tokenizer: str,
    optimizer: str,
    progress: Mapping[str, Any],
) -> None:
    """Check that training can be resumed from the content of the checkpoint ``path``.

    The model to train has these ``weights`` by name, a ``tokenizer`` with this digest, and an ``optimizer`` of this
    class. ``progress`` are the counters that a checkpoint must contain.

    Raises:
        HeedError: if the checkpoint has another format, architecture, tokenizer or optimizer, or no training progress.
    """
    from heed.inference.model_folder import check_architecture

    check_run_format(checkpoint.get(FORMAT_KEY), path)
    check_architecture(checkpoint["state_dict"], weights, path)
    if checkpoint["tokenizer"] != tokenizer:
        raise HeedError(
            f"{path} was trained with another tokenizer, so its token ids mean other pieces. If the training text or "
            "an option of the tokenizer has changed, restore it; the weights of a finished run can start a new one "
            "(init_from=RUN)."
        )
    if checkpoint["optimizer"] != optimizer:
        raise HeedError(
            f"{path} holds the optimizer state of {checkpoint['optimizer']}, which {optimizer} cannot use: choose the "
            "same optimizer or, if the run is finished, start a new one from its weights (init_from=RUN)."
        )
    # Lightning ignores missing counters and would start trained weights at step 0.
    if not progress.keys() <= checkpoint["loops"]["fit_loop"].keys():
        raise HeedError(f"{path} does not contain the training progress: choose another one with ckpt_path=.")
