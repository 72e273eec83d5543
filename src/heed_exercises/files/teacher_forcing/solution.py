"""Loss under teacher forcing (Williams & Zipser 1989)."""

from collections.abc import Callable

import torch
from torch import Tensor

from heed.symbols import BOS, PAD


def teacher_forcing(target: Tensor, step: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], state: Tensor) -> Tensor:
    """Return the mean negative log-likelihood per token: −1/n Σₜ log p(yₜ | BOS, y₁ … yₜ₋₁).

    Args:
        target: the ids of the reference, shape (B, T). Each sentence ends with EOS, and then has PAD.
        step: the decoder: (last token of shape (B,), state) → (logits of the next token of shape (B, V), next state).
        state: the state before the first token.

    Returns:
        The loss in nats, a tensor without axes. n counts EOS, and PAD counts nowhere.
    """
    token, total = torch.full_like(target[:, 0], BOS), torch.zeros(())
    for gold in target.unbind(1):
        logits, state = step(token, state)
        log_p = logits.log_softmax(1).gather(1, gold[:, None])[:, 0]
        total = total - log_p[gold != PAD].sum()
        token = gold
    return total / (target != PAD).sum()
