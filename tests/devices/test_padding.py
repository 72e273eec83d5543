"""Padding to a multiple and copies in page-locked memory: what a GPU gets, and a CPU does not."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from heed.data.batch import Batch, collate
from heed.data.pairs import id_lists
from heed.data.steps import Planner
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq
from heed.training.loss import translation_loss
from tests.data.corpora import plan_steps


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_padding_to_a_multiple_changes_neither_the_loss_nor_the_gradient(
    tiny_model: Callable[..., Seq2Seq], family: str
) -> None:
    rng = np.random.default_rng(1)
    src = id_lists([rng.integers(4, 23, size=length).tolist() for length in (3, 9, 5, 10)])
    tgt = id_lists([rng.integers(4, 29, size=length).tolist() for length in (4, 2, 8, 11)])
    model = tiny_model(family)

    def loss_and_gradient(batch: Batch) -> tuple[torch.Tensor, list[torch.Tensor]]:
        model.zero_grad()
        hidden = model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in, src_lengths=batch.src_lengths)
        loss, _ = translation_loss(hidden, batch.tgt_out, batch.tgt_positions[0], label_smoothing=0.1)
        loss.backward()
        return loss.detach(), [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    plain, padded = (collate(np.arange(4), src, tgt, multiple=multiple) for multiple in (1, 8))
    assert (plain.src.shape[1], padded.src.shape[1]) == (11, 16)
    assert (plain.tgt_in.shape[1], padded.tgt_in.shape[1]) == (12, 16)
    torch.testing.assert_close(loss_and_gradient(padded), loss_and_gradient(plain), rtol=1e-10, atol=1e-12)


def test_short_pairs_are_counted_with_their_padding() -> None:
    # 1,000 pairs of 2 + 2 tokens, padded to 8 + 8, would be 16,000 tokens in one micro-batch.
    planner = Planner(batch_tokens=2000, device_tokens=4096, pad_to_multiple=8, pool=1000, seed=1)
    lengths = np.full(1000, 2)
    (step,) = plan_steps(planner, lengths, lengths, epoch=0)
    assert [len(rows) for rows in step.micro_batches] == [250] * 4
    # A pair that fits only without its padding is refused, instead of being cut forever.
    planner.device_tokens = 15
    with pytest.raises(HeedError, match=r"^The longest training pair has 16 source and target tokens"):
        list(plan_steps(planner, lengths, lengths, epoch=0))


@pytest.mark.full
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
