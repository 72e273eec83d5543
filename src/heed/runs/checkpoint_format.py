"""The version number of heed's checkpoint files, and the check for damage."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.options import format_value

FORMAT_KEY = "heed_format"
"""The entry of a checkpoint that holds `CHECKPOINT_FORMAT`."""
CHECKPOINT_FORMAT = 2
"""The format that this version of heed writes, and the only one that it reads.

Increase it when parameter names, the order of parameters in optimizer groups, or the state of a callback change.
"""


class CheckpointFormatError(HeedError):
    """A checkpoint of another version of heed. Its run cannot be resumed."""


def check_undamaged(path: Path) -> None:
    """Compare the content of a checkpoint with the CRCs in its archive: torch writes them, but does not check them.

    Raises:
        Exception: of many types, if the archive is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise zipfile.BadZipFile(damaged)


def check_checkpoint_format(checkpoint: Mapping[str, Any], path: Path) -> None:
    """Refuse a checkpoint of another format.

    Args:
        checkpoint: the content of the file ``path``.

    Raises:
        CheckpointFormatError: if the checkpoint has another format.
    """
    found = checkpoint.get(FORMAT_KEY)
    if not isinstance(found, int) or found != CHECKPOINT_FORMAT:
        raise CheckpointFormatError(
            f"{path} was written by another version of heed ({FORMAT_KEY}={format_value(found)}; this version reads "
            f"{CHECKPOINT_FORMAT}): use that version."
        )
