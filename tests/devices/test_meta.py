"""A training step and search steps on torch's meta device, which has shapes and no values, as a stand-in for a GPU.

No operation may mix devices, and nothing may ask for a value: on a GPU, the host would wait for the device.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from heed.data.pairs.pairs import Pairs, id_lists
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch, collate
from heed.data.steps.stream import StepShard
from heed.decoding import BeamSearch, GreedySearch, SampleSearch, Search
from heed.decoding.search import History
from heed.layers.positions import PositionsConfig
from heed.models import build_model
from heed.models.rnn_config import RNNConfig
from heed.models.seq2seq import ModelConfig
from heed.training.module import TrainingOptions, TranslationModule
from tests.conftest import RNN, TRANSFORMER
from tests.tokenizers import train_tokenizer

META = torch.device("meta")
ALLOWED = ("_to_copy", "copy_", "lstm", "gru", "_pack_padded_sequence", "_pad_packed_sequence")
"""Operations on two devices: copies, and those of torch's recurrent layers, which take the lengths on the CPU."""
WORDS = 700
"""In the target vocabulary: enough for a search to skip blocks of improbable tokens."""


@pytest.fixture(autouse=True)
def without_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch knows no autocast on the meta device, and raises an error when asked."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)


class OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses operations on tensors of several devices. torch accepts some of them, such as indices on the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        devices = {leaf.device.type for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        assert len(devices) < 2 or name in ALLOWED, f"{name} mixes {devices}"
        return func(*args, **(kwargs or {}))


SMALL = replace(TRANSFORMER, d_model=40, num_heads=4, encoder_layers=1, decoder_layers=1, layer_dropout=0.1)


def positions(kind: Any, *, merge: Any = None, max_length: int | None = None) -> ModelConfig:
    return replace(SMALL, positions=PositionsConfig(kind=kind, merge=merge, max_length=max_length))


def attention(score: Any, *, cell: Any = "lstm", **changes: Any) -> ModelConfig:
    found = replace(RNN.attention, **{"input_feeding": False, **changes}, score=score)
    return replace(RNN, layers=1, cell=cell, attention=found)


FAMILIES: dict[str, ModelConfig] = {"transformer": SMALL, "rnn": attention("general", input_feeding=True)}
MODELS: dict[str, ModelConfig] = {
    **FAMILIES,
    "rotary": positions("rotary"),
    "alibi": positions("alibi"),
    "relative": positions("relative"),
    "learned": positions("learned", merge="concat", max_length=40),
    "local-m": attention("general", reach="local_m", window=2, cell="gru"),
    "local-p": attention("additive", reach="local_p", window=2, order="bahdanau", coverage=True),
    "location": attention("location", max_source=40),
}


def build(name: str) -> Any:
    """Return a model that was built on the CPU and moved, as in a training."""
    return build_model(MODELS[name], src_vocab=50, tgt_vocab=WORDS, joint=False).to(META)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(["a b c"], vocab_size=8)


def batch(*, padded: bool) -> Batch:
    """Return a batch of a mixture of three texts; one has no sentence in it."""
    lengths = ((3, 4, 2, 1, 2), (4, 5, 2, 3, 1)) if padded else ((3, 3, 3, 3, 3), (4, 4, 4, 4, 4))
    src, tgt = (id_lists([[5] * length for length in side]) for side in lengths)
    rows = np.arange(5)
    return collate(rows, Pairs(rows, src, tgt), text_of=np.array([0, 2, 0, 0, 2]), texts=3)


class MaskedSGD(torch.optim.Optimizer):
    """Skips steps on the device, as torch's fused optimizers do, which know no meta device."""

    _step_supports_amp_scaling = True
    found_inf: Tensor

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for parameter in self.param_groups[0]["params"]:
            parameter.data.sub_(parameter.grad * (1 - self.found_inf), alpha=self.param_groups[0]["lr"])


@pytest.mark.parametrize(
    ("name", "padded", "alpha"), [*((name, True, 5.0) for name in MODELS), *((name, False, 0.0) for name in FAMILIES)]
)
def test_a_training_step(
    name: str, padded: bool, alpha: float, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = TranslationModule(
        build(name),
        tokenizer,
        TrainingOptions(
            label_smoothing=0.1,
            r_drop=alpha,
            embedding_lr_scale=1.0,
            clip_norm=1.0,
            max_skipped_steps=5,
            compile=False,
            teacher_forcing=0.5 if alpha else 1.0,
            guided_alignment=None,
            guided_alignment_weight=0.0,
        ),
        optimizer=partial(MaskedSGD, defaults={"lr": 0.1}),
        schedule=lambda step: 1.0,
        search=GreedySearch(max_length_factor=1.0, max_length_extra=1),
        seed=1,
    ).to(META)
    module.train()
    optimizer = module.configure_optimizers()
    corpus = SimpleNamespace(train=SimpleNamespace(texts=["a", "b", "c"]))
    stream = SimpleNamespace(finished=lambda shard: None)
    data = SimpleNamespace(corpus=corpus, planner=SimpleNamespace(device_tokens=99), stream=stream)
    trainer: Any = SimpleNamespace(
        world_size=2, optimizers=[optimizer], precision_plugin=None, strategy=None, global_step=3
    )
    monkeypatch.setattr(TranslationModule, "data", data)
    monkeypatch.setattr(module, "_trainer", trainer)
    monkeypatch.setattr(module, "optimizers", lambda: optimizer)
    monkeypatch.setattr(module, "manual_backward", lambda loss: loss.backward())
    micro_batches = ((0, batch(padded=padded).to(META)),)
    shard = StepShard(
        epoch=0, step=0, src_tokens=9, tgt_tokens=9, padded_tokens=9, micro_batches=micro_batches, last=False
    )
    with OneDevice():  # type: ignore[no-untyped-call]
        found = module.training_step(shard, 0)
    assert all(value.is_meta for value in (*found.values(), module.skipped.counts))


class _AskedForValueError(Exception):
    pass


LIMITS: dict[str, Any] = {"max_length_factor": 1.0, "max_length_extra": 20}
SEARCHES: dict[str, Search] = {
    "greedy": GreedySearch(**LIMITS),
    "beam": BeamSearch(beam=3, length_penalty=0.6, n_best=2, **LIMITS),
    "sample": SampleSearch(temperature=0.7, top_k=None, top_p=None, seed=1, n_best=1, **LIMITS),
    "nucleus": SampleSearch(temperature=0.7, top_k=9, top_p=0.8, seed=1, n_best=1, **LIMITS),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("greedy", name) for name in MODELS),
        *(("beam", name) for name in FAMILIES),
        ("sample", "rnn"),
        ("nucleus", "rnn"),
    ],
)
def test_search_steps_between_two_checks(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, search, found = build(name).eval(), SEARCHES[kind], batch(padded=True)
    src, mask, lengths = found.src.to(META), found.src_mask.to(META), found.src_lengths
    steps: list[History] = []

    def refuse(tensor: Tensor) -> Any:
        raise _AskedForValueError

    def limits(*_: object) -> list[int]:
        return [20, 29, 24, 20, 20]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            steps.append(args[0])
            return function(*args)

        return call

    monkeypatch.setattr(Tensor, "tolist", refuse)
    # Once in a search, it reads the lengths from the mask, and sampling reads the tokens.
    monkeypatch.setattr(type(search), "limits", limits)
    monkeypatch.setattr(SampleSearch, "_uniform", lambda *_: torch.zeros(5, 29, dtype=torch.float64))
    if isinstance(model.config, RNNConfig):
        # Its encoder needs the lengths on the CPU.
        monkeypatch.setattr(model, "encode", partial(model.encode, src_lengths=lengths))
    monkeypatch.setattr(History, "append", counted(History.append))
    with OneDevice(), pytest.raises(_AskedForValueError):  # type: ignore[no-untyped-call]
        search(model, src, mask)
    assert len(steps) == 8
    with OneDevice():  # type: ignore[no-untyped-call]
        assert all(part.is_meta for part in steps[0].tensors())
