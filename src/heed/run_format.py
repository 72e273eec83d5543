"""The version of the files that a run writes: ``results.json``, checkpoints and the model folder."""

from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.options import format_value

RUN_FORMAT = 6
"""The only version that this heed writes and reads.

Increase it when a key of ``results.json`` or of the model folder is removed or changes its meaning, or when parameter
names, the order of parameters in optimizer groups, or the state of a callback change.
"""


class RunFormatError(HeedError):
    """A file of a run that another version of heed wrote."""


def check_run_format(found: Any, path: Path) -> None:
    """Raise a RunFormatError if ``found``, the version in the file ``path``, is another one."""
    if type(found) is not int or found != RUN_FORMAT:
        raise RunFormatError(
            f"{path} was written by another version of heed (format {format_value(found)}; this version reads "
            f"{RUN_FORMAT}): train the run again, or use that version."
        )
