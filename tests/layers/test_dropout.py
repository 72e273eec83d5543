"""Dropout modules."""

import torch
from torch.testing import assert_close

from heed.layers.dropout import Dropout


def test_changes_nothing_when_not_training() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(5, 3))


def test_drops_the_given_part_and_draws_for_each_position() -> None:
    dropped = Dropout(0.4)(torch.ones(101, 2, 103))
    assert_close(dropped.unique(), torch.tensor([0.0, 1 / 0.6]), rtol=1e-4, atol=0)
    assert_close((dropped == 0).double().mean().item(), 0.4, atol=0.02, rtol=0)
    assert not torch.equal(dropped[:, 0], dropped[:, 1])
