"""Checkpoints of other formats are refused."""

from pathlib import Path
from typing import Any

import pytest

from heed.errors import HeedError
from heed.runs.checkpoint_format import CHECKPOINT_FORMAT, check_checkpoint_format


def test_the_current_format_is_accepted() -> None:
    check_checkpoint_format({"heed_format": CHECKPOINT_FORMAT}, Path("run.ckpt"), if_older="…")


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ({}, "run.ckpt was written by an earlier version of heed, so start again."),
        ({"heed_format": 1}, "run.ckpt was written by an earlier version of heed, so start again."),
        ({"heed_format": CHECKPOINT_FORMAT + 1}, "run.ckpt was written by a newer version of heed (checkpoint format"),
        ({"heed_format": "two"}, "run.ckpt is damaged: heed_format is not a number."),
    ],
)
def test_another_format_is_refused(checkpoint: dict[str, Any], message: str) -> None:
    with pytest.raises(HeedError) as error:
        check_checkpoint_format(checkpoint, Path("run.ckpt"), if_older="so start again.")
    assert str(error.value).startswith(message)
