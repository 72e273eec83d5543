"""The version number of heed's checkpoint files, and the check for damage."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.errors import HeedError

FORMAT_KEY = "heed_format"
"""The entry of a checkpoint that holds `CHECKPOINT_FORMAT`."""
CHECKPOINT_FORMAT = 2
"""The format that this version of heed writes, and the only one that it reads.

Increase it when parameter names, the order of parameters in optimizer groups, or the state of a callback change.
Format 1 has no number. Its parameters have other names, and its optimizer state is stored by position.
"""


class CheckpointFormatError(HeedError):
    """A checkpoint of another version of heed. Its run cannot be resumed."""


def check_undamaged(path: Path) -> None:
    """Compare the content of a checkpoint with the CRCs in its archive: torch writes them, but does not check them.

    Raises:
        Exception: of many kinds, if the archive is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(damaged)


def check_checkpoint_format(checkpoint: Mapping[str, Any], path: Path, *, if_older: str) -> None:
    """Refuse a checkpoint of another format.

    Args:
        checkpoint: the content of the file ``path``.
        if_older: the part of the message that says why an older checkpoint cannot be used, and what to do instead.

    Raises:
        CheckpointFormatError: if the checkpoint has another format.
        HeedError: if its format is not a number.
    """
    found = checkpoint.get(FORMAT_KEY, 1)
    if not isinstance(found, int):
        raise HeedError(f"{path} is damaged: {FORMAT_KEY} is not a number.")
    if found < CHECKPOINT_FORMAT:
        raise CheckpointFormatError(f"{path} was written by an earlier version of heed, {if_older}")
    if found > CHECKPOINT_FORMAT:
        raise CheckpointFormatError(
            f"{path} was written by a newer version of heed (checkpoint format {found}; this version reads "
            f"{CHECKPOINT_FORMAT}): update heed."
        )
