"""The loss of a micro-batch, with and without R-Drop."""

import io
from collections.abc import Callable
from functools import partial

import pytest
import sentencepiece as spm
import torch

from heed.data.batch import Batch
from heed.data.tokenizer import Tokenizer
from heed.decoding import GreedySearch
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD, UNK
from heed.training.loss import cross_entropy, r_drop
from heed.training.module import TranslationModule
from heed.training.schedules import Constant


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    proto = io.BytesIO()
    ids = {"pad_id": PAD, "unk_id": UNK, "bos_id": BOS, "eos_id": EOS}
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d"]), model_writer=proto, model_type="char", vocab_size=9, minloglevel=2, **ids
    )
    return Tokenizer(proto.getvalue(), None)


def module(model: Seq2Seq, tokenizer: Tokenizer, *, alpha: float) -> TranslationModule:
    return TranslationModule(
        model,
        tokenizer,
        optimizer=partial(torch.optim.SGD, lr=0.1),
        schedule=Constant(warmup_steps=0),
        label_smoothing=0.1,
        r_drop=alpha,
        embedding_lr_scale=1.0,
        clip_norm=0.0,
        max_skipped_steps=5,
        search=GreedySearch(max_length_factor=1.0, max_length_extra=1),
        seed=1,
    )


def test_tables_learn_at_a_rate_of_their_own(tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer) -> None:
    model = tiny_model("transformer")
    trained = module(model, tokenizer, alpha=0.0)
    trained.embedding_lr_scale = 4.0
    rates = {
        parameter: group["initial_lr"]
        for group in trained.configure_optimizers().param_groups
        for parameter in group["params"]
    }
    tables = {module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    assert tables
    assert rates == {p: pytest.approx(0.4 if p in tables else 0.1) for p in model.parameters()}


def a_batch() -> Batch:
    src, tgt = torch.randint(4, 23, (5, 7)), torch.randint(4, 29, (5, 6))
    tgt[3:, 4:] = PAD
    tgt_in = torch.cat([torch.full((5, 1), BOS), tgt[:, :-1]], dim=1)
    return Batch(src, torch.ones_like(src, dtype=torch.bool), tgt_in, tgt, index=torch.arange(5))


def differentiated(trained: TranslationModule, batch: Batch, seed: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    torch.manual_seed(seed)
    loss, _ = trained.summed_loss(batch)
    return loss.detach(), list(torch.autograd.grad(loss, list(trained.model.parameters())))


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_without_r_drop_it_is_one_pass_bit_for_bit(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    model, batch = tiny_model(family).train(), a_batch()
    torch.manual_seed(3)
    output = model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in)
    loss, _ = cross_entropy(output, batch.tgt_out, label_smoothing=0.1)
    expected = torch.autograd.grad(loss, list(model.parameters()))
    after = torch.get_rng_state()
    ours, gradients = differentiated(module(model, tokenizer, alpha=0.0), batch, seed=3)
    assert torch.equal(ours, loss)
    assert all(map(torch.equal, gradients, expected))
    assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_r_drop_compares_two_dropouts(family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer) -> None:
    model, batch = tiny_model(family).train(), a_batch()
    torch.manual_seed(3)
    twice = (part.repeat_interleave(2, 0) for part in (batch.src, batch.src_mask, batch.tgt_in))
    both = model.decode_hidden(*twice)
    first, second = both[::2], both[1::2]
    for one, other in zip(first.states, second.states, strict=True):
        assert not torch.allclose(one, other)
    expected, _ = r_drop((first, second), batch.tgt_out, label_smoothing=0.1, alpha=2.0)
    ours, _ = differentiated(module(model, tokenizer, alpha=2.0), batch, seed=3)
    torch.testing.assert_close(ours, expected.detach())

    # Without dropout there is nothing to compare.
    model.eval()
    losses, gradients = zip(
        *(differentiated(module(model, tokenizer, alpha=a), batch, 3) for a in (2.0, 0.0)), strict=True
    )
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_matrices_tables_and_vectors_are_told_apart(
    family: str, tiny_model: Callable[..., Seq2Seq], tokenizer: Tokenizer
) -> None:
    model = tiny_model(family)
    groups = module(model, tokenizer, alpha=0.0).configure_optimizers().param_groups
    parameters = {parameter: name for name, parameter in model.named_parameters()}
    names = {group["kind"]: {parameters.pop(parameter) for parameter in group["params"]} for group in groups}
    assert not parameters, "each is in one group"
    assert all("embedding" in name for name in names["table"])
    assert all("bias" in name or "norm" in name for name in names["vector"])
    assert all(name.endswith(("weight", "weight_ih_l0", "weight_hh_l0")) for name in names["matrix"]), names["matrix"]
    assert names["table"]
    assert len(names["matrix"]) > 5
    assert {group["kind"]: group["weight_decay"] for group in groups}["vector"] == 0
