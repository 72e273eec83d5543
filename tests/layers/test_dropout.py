"""Dropout modules."""

import torch
from torch.testing import assert_close

from heed.layers.dropout import Dropout, SequenceDropout


def test_changes_nothing_when_not_training() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(5, 3))


def test_variational_dropout_uses_one_mask_at_every_step() -> None:
    dropout = SequenceDropout(0.4, variational=True)
    mask = dropout.mask(101, 103, torch.device("cpu"))
    assert mask is not None
    assert_close(mask.unique(), torch.tensor([0.0, 1 / 0.6]), rtol=1e-4, atol=0)
    assert_close((mask == 0).double().mean().item(), 0.4, atol=0.02, rtol=0)
    x = torch.randn(101, 3, 103)
    assert_close(dropout(x, mask), torch.stack([x[:, t] * mask for t in range(3)], 1))
    assert dropout.eval().mask(101, 103, torch.device("cpu")) is None
    assert SequenceDropout(0.0, variational=True).mask(101, 103, torch.device("cpu")) is None


def test_standard_dropout_draws_a_mask_at_every_step() -> None:
    dropout = SequenceDropout(0.4, variational=False)
    assert dropout.mask(101, 103, torch.device("cpu")) is None
    dropped = dropout(torch.ones(101, 2, 103), None)
    assert_close((dropped == 0).double().mean().item(), 0.4, atol=0.02, rtol=0)
    assert not torch.equal(dropped[:, 0], dropped[:, 1])
