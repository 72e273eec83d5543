"""One table, read in both directions."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from heed.layers.embedding import TokenEmbedding
from heed.symbols import PAD


def test_tokens_enter_scaled_and_leave_as_inner_products() -> None:
    embedding = TokenEmbedding(vocab_size=13, d_model=7)
    ids, states = torch.randint(13, (2, 5)), torch.randn(2, 5, 7)
    table = embedding.weight.tolist()
    entered = [[[7**0.5 * number for number in table[token]] for token in row] for row in ids.tolist()]
    inner = [
        [[sum(a * b for a, b in zip(state, vector, strict=True)) for vector in table] for state in row]
        for row in states.tolist()
    ]
    assert_close(embedding(ids), torch.tensor(entered))
    assert_close(F.linear(states, embedding.weight), torch.tensor(inner))


def test_tokens_enter_with_unit_variance_and_padding_as_zero() -> None:
    embedding = TokenEmbedding(vocab_size=1009, d_model=211)
    entered = embedding(torch.arange(1009))
    assert not entered[PAD].any()
    assert_close(entered[PAD + 1 :].std().item(), 1.0, atol=0.01, rtol=0)
    assert_close(entered.mean().item(), 0.0, atol=0.01, rtol=0)


def test_padding_does_not_learn_from_being_read() -> None:
    embedding = TokenEmbedding(vocab_size=13, d_model=7)
    embedding(torch.arange(13)).square().sum().backward()
    gradient = embedding.weight.grad
    assert gradient is not None
    assert gradient.any(1).nonzero().flatten().tolist() == list(range(PAD + 1, 13))
