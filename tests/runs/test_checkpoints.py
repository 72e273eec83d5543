"""Checkpoints of other formats and damaged ones are refused."""

from pathlib import Path

import pytest
import torch

from heed.errors import HeedError
from heed.run_format import RUN_FORMAT
from heed.runs.averaging import checkpoint_weights
from heed.training.callbacks.checkpoints import AtomicCheckpointIO


def test_a_checkpoint_with_one_flipped_bit_is_refused_by_name(tmp_path: Path) -> None:
    path, weight = tmp_path / "last-0000020.ckpt", torch.full((100,), 1.5)
    content = {"heed_format": RUN_FORMAT, "state_dict": {"model.w": weight}, "loops": {}, "callbacks": {}}
    AtomicCheckpointIO().save_checkpoint(content, path)
    assert torch.equal(checkpoint_weights(path, ema=False)["w"], weight)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(weight.numpy().tobytes()) + 3] ^= 1  # of the exponent of the first weight
    path.write_bytes(damaged)
    with pytest.raises(HeedError, match=r"last-0000020\.ckpt is no checkpoint, or a damaged one"):
        AtomicCheckpointIO().load_checkpoint(path)
    with pytest.raises(HeedError, match=r"last-0000020\.ckpt is damaged"):
        checkpoint_weights(path, ema=False)
