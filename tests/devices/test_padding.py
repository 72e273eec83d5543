"""Padding to a multiple and copies in page-locked memory: what a GPU gets, and a CPU does not."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from heed.data.batch import Batch, collate
from heed.data.micro_batches import Planner
from heed.data.ragged import Ragged
from heed.models.seq2seq import Seq2Seq
from heed.training.loss import cross_entropy


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_padding_to_a_multiple_changes_neither_the_loss_nor_the_gradient(
    tiny_model: Callable[..., Seq2Seq], family: str
) -> None:
    rng = np.random.default_rng(1)
    src = Ragged.of([rng.integers(4, 23, size=length).tolist() for length in (3, 9, 5, 10)])
    tgt = Ragged.of([rng.integers(4, 29, size=length).tolist() for length in (4, 2, 8, 11)])
    model = tiny_model(family)

    def loss_and_gradient(batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        model.zero_grad()
        hidden = model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in, src_lengths=batch.src_lengths)
        loss, _ = cross_entropy(hidden, batch.tgt_out, batch.tgt_positions[0], label_smoothing=0.1)
        loss.backward()
        return loss.detach(), [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    plain, padded = (collate(np.arange(4), src, tgt, multiple=multiple) for multiple in (1, 8))
    assert (plain.src.shape[1], padded.src.shape[1]) == (11, 16)
    assert (plain.tgt_in.shape[1], padded.tgt_in.shape[1]) == (12, 16)
    torch.testing.assert_close(loss_and_gradient(padded), loss_and_gradient(plain), rtol=1e-10, atol=1e-12)


def test_only_cuda_pads_to_a_multiple_by_default() -> None:
    def planner(pad_to_multiple: object) -> Planner:
        options = {"batch_tokens": 9, "device_tokens": 99, "pool": 9, "seed": 1, "pad_to_multiple": pad_to_multiple}
        return Planner(**options)  # type: ignore[arg-type]

    assert [planner("auto").multiple(on_cuda=on_cuda) for on_cuda in (False, True)] == [1, 8]
    assert [planner(4).multiple(on_cuda=on_cuda) for on_cuda in (False, True)] == [4, 4]


@pytest.mark.slow
def test_training_pads_to_the_multiple_and_pins_no_memory_on_a_cpu(
    run: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    from heed.training.module import TranslationModule

    lengths: list[int] = []
    compute = TranslationModule.summed_loss

    def recorded(self: TranslationModule, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        lengths.extend((batch.src.shape[1], batch.tgt_in.shape[1]))
        return compute(self, batch)

    def refuse(batch: Batch) -> Batch:
        raise AssertionError("page-locked memory needs a GPU")

    monkeypatch.setattr(TranslationModule, "summed_loss", recorded)
    monkeypatch.setattr(Batch, "pin_memory", refuse)
    tiny = ["data.train=60", "data.valid=4", "data.test=4", "data.long=4", "test=false", "model=rnn", "model.d_model=8",
            "model.d_embedding=8", "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2",
            "batching.batch_tokens=200", "callbacks.attention_maps=null"]  # fmt: skip
    run("padded", *tiny, "batching.pad_to_multiple=5")
    assert len(lengths) == 4
    assert not any(length % 5 for length in lengths)
