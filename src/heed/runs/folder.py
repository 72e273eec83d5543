"""The folder of a run, ``runs/NAME/TIME``: start or resume the run, and write its files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import format_exception
from typing import Any

from heed.data.text.source import Sentences
from heed.files import write_file
from heed.progress import is_first_process
from heed.runs.claim import FAILURE
from heed.runs.config import read_config, write_config
from heed.runs.resume import starting_checkpoint


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

    def write_translations(self, split: str, text: Sentences, translations: list[str]) -> None:
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
