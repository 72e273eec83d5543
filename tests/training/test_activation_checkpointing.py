"""Activation checkpointing: the same loss and gradients with less memory."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from heed.data.steps.batch import Batch
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq, TrainableSeq2Seq
from heed.symbols import BOS
from heed.training.memory import checkpoint_layers


def loss_gradients_and_memory(model: TrainableSeq2Seq, batch: Batch) -> tuple[Tensor, list[Tensor], int]:
    """Return the loss, the gradients, and the bytes that the forward pass keeps for the backward pass."""
    kept = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    torch.manual_seed(3)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        hidden = model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in)
        loss, _ = hidden.loss(batch.tgt_out, *batch.tgt_positions, label_smoothing=0.1)
    memory = sum(kept)
    return loss.detach(), list(torch.autograd.grad(loss, list(model.parameters()))), memory


def test_the_same_gradients_with_less_memory(tiny_model: Callable[..., Seq2Seq]) -> None:
    src, tgt = torch.randint(4, 23, (9, 12)), torch.randint(4, 29, (9, 11))
    batch = Batch.without_padding(src, torch.cat([torch.full((9, 1), BOS), tgt[:, :-1]], dim=1), tgt)
    model = tiny_model("transformer").train()
    assert isinstance(model, TrainableSeq2Seq)
    loss, gradients, memory = loss_gradients_and_memory(model, batch)
    names = list(model.state_dict())
    checkpoint_layers(model)
    assert list(model.state_dict()) == names
    same_loss, same_gradients, less_memory = loss_gradients_and_memory(model, batch)
    assert torch.equal(same_loss, loss)
    assert all(map(torch.equal, same_gradients, gradients))
    assert less_memory < memory / 2


def test_recurrent_networks_are_refused(tiny_model: Callable[..., Seq2Seq]) -> None:
    with pytest.raises(HeedError, match=r"^module\.activation_checkpointing=true is for transformers"):
        checkpoint_layers(tiny_model("rnn"))
