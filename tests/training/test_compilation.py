"""Compiled training steps: one graph for every size of batch, and the results of the modules."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any
from unittest import mock

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close

from heed.errors import HeedError
from heed.models import build_model
from heed.models.seq2seq import Seq2Seq, TrainableSeq2Seq
from heed.models.transformer import Transformer
from heed.symbols import BOS, PAD
from heed.training.module import compiled_decode_hidden
from tests.conftest import TRANSFORMER

SMALL = replace(TRANSFORMER, encoder_layers=2, decoder_layers=1)
POSITIONS = SMALL.positions
ARCHITECTURES = {
    "pre-norm": SMALL,
    "post-norm": replace(SMALL, norm="post"),
    "RMSNorm and SwiGLU": replace(SMALL, norm_kind="rms", activation="swiglu"),
    "layer dropout": replace(SMALL, layer_dropout=0.5),
    "parameter-free": replace(SMALL, self_attention=replace(SMALL.self_attention, kind="parameter_free")),
    "learned": replace(SMALL, positions=replace(POSITIONS, kind="learned", max_length=20)),
    "rotary": replace(SMALL, positions=replace(POSITIONS, kind="rotary", merge=None)),
    "alibi": replace(SMALL, positions=replace(POSITIONS, kind="alibi", merge=None)),
    "relative": replace(SMALL, positions=replace(POSITIONS, kind="relative", merge=None)),
}
SIZES = [(3, 5, 7), (4, 9, 6), (2, 8, 8), (6, 4, 11)]
"""Rows, source length and target length."""


def build(name: str) -> Transformer:
    model = build_model(ARCHITECTURES[name], src_vocab=23, tgt_vocab=29, joint=False)
    assert isinstance(model, Transformer)
    return model


def batch(rows: int, src_length: int, tgt_length: int, *, padded: bool) -> tuple[torch.Tensor, Any, torch.Tensor]:
    """Return a source, its mask, and the decoder's input."""
    src, tgt = torch.randint(4, 23, (rows, src_length)), torch.randint(4, 29, (rows, tgt_length))
    tgt[:, 0] = BOS
    if padded:
        src[0, -2:] = PAD
    return src, src != PAD if padded else None, tgt


@pytest.fixture(scope="module")
def process() -> Iterator[Executor]:
    """A process without the checks of argument types, which torch.compile cannot compile."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.mark.full
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_one_graph_without_breaks(process: Executor, name: str) -> None:
    # With and without padding. Tables of positions grow with the first batch, which makes one more.
    assert process.submit(count_graphs, name).result() <= 3


def count_graphs(name: str) -> int:
    """Return the number of graphs for batches of several sizes, after comparing their results with the modules'."""
    torch._dynamo.reset()
    model = build(name).train()
    counter = CompileCounter()
    with mock.patch.object(torch, "compile", partial(torch.compile, backend=counter)):
        compiled = compiled_decode_hidden(model)
    batches = [batch(*size, padded=padded) for padded in (True, False) for size in SIZES]
    for inputs in batches:
        compiled(*inputs).states.sum().backward()
    graphs: int = counter.frame_count
    model.eval()
    for inputs in batches:
        assert_close(compiled(*inputs).states, model.decode_hidden(*inputs).states, rtol=1e-4, atol=1e-5)
    return graphs


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_kernels_of_the_compiler(process: Executor) -> None:
    process.submit(compare_kernels).result()


def compare_kernels() -> None:
    """Compare the gradients of compiled steps with those of the modules."""
    torch._dynamo.reset()
    torch._inductor.config.compile_threads = 1  # starting a pool of processes takes longer than compiling these kernels
    torch.manual_seed(1)
    model = build("pre-norm").eval()
    sizes = [batch(3, 5, 7, padded=True), batch(4, 9, 6, padded=True)]
    expected = [gradients(model, model.decode_hidden, inputs) for inputs in sizes]
    compiled = compiled_decode_hidden(model)
    for inputs, theirs in zip(sizes, expected, strict=True):
        assert_close(gradients(model, compiled, inputs), theirs, rtol=1e-3, atol=1e-4)


def gradients(model: Transformer, decode_hidden: Callable[..., Any], inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    loss = decode_hidden(*inputs).states.square().mean()
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def test_recurrent_networks_are_refused(tiny_model: Callable[..., Seq2Seq]) -> None:
    model = tiny_model("rnn")
    assert isinstance(model, TrainableSeq2Seq)
    with pytest.raises(HeedError, match=r"^module\.compile=true is for transformers"):
        compiled_decode_hidden(model)
