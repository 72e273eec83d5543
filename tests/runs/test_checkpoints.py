"""Checkpoints of other formats and damaged ones are refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from heed.errors import HeedError
from heed.runs.averaging import checkpoint_weights
from heed.runs.checkpoints import CHECKPOINT_FORMAT, check_checkpoint_format
from heed.training.callbacks.checkpoints import AtomicCheckpointIO


def test_the_current_format_is_accepted() -> None:
    check_checkpoint_format({"heed_format": CHECKPOINT_FORMAT}, Path("run.ckpt"))


@pytest.mark.parametrize(
    ("checkpoint", "found"),
    [({}, "null"), ({"heed_format": 1}, "1"), ({"heed_format": 99}, "99"), ({"heed_format": "two"}, "two")],
)
def test_another_format_is_refused(checkpoint: dict[str, Any], found: str) -> None:
    with pytest.raises(HeedError) as error:
        check_checkpoint_format(checkpoint, Path("run.ckpt"))
    assert str(error.value) == (
        f"run.ckpt was written by another version of heed (heed_format={found}; this version reads "
        f"{CHECKPOINT_FORMAT}): use that version."
    )


def test_a_checkpoint_with_one_flipped_bit_is_refused_by_name(tmp_path: Path) -> None:
    path, weight = tmp_path / "last-0000020.ckpt", torch.full((100,), 1.5)
    content = {"heed_format": CHECKPOINT_FORMAT, "state_dict": {"model.w": weight}, "loops": {}, "callbacks": {}}
    AtomicCheckpointIO().save_checkpoint(content, path)
    assert torch.equal(checkpoint_weights(path, ema=False)["w"], weight)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(weight.numpy().tobytes()) + 3] ^= 1  # of the exponent of the first weight
    path.write_bytes(damaged)
    with pytest.raises(HeedError, match=r"last-0000020\.ckpt is no checkpoint, or a damaged one"):
        AtomicCheckpointIO().load_checkpoint(path)
    with pytest.raises(HeedError, match=r"last-0000020\.ckpt is damaged"):
        checkpoint_weights(path, ema=False)
