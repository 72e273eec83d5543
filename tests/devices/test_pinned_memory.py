"""Copies in page-locked memory: what a GPU gets, and a CPU does not."""

from collections.abc import Callable

import pytest

from heed.data.steps.batch import Batch


@pytest.mark.full
def test_training_pins_no_memory_on_a_cpu(run: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(batch: Batch) -> Batch:
        raise AssertionError("page-locked memory needs a GPU")

    monkeypatch.setattr(Batch, "pin_memory", refuse)
    tiny = ["data.train=60", "data.valid=4", "data.test=4", "data.long=4", "test=false", "model=rnn", "model.d_model=8",
            "model.d_embedding=8", "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2",
            "batching.batch_tokens=200", "callbacks.attention_maps=null"]  # fmt: skip
    run("unpinned", *tiny)
