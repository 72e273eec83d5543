"""Mistakes that the check explains."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from heed.symbols import BOS, PAD

Step = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def free_running(target: Tensor, step: Step, state: Tensor) -> Tensor:
    """The decoder reads its own predictions. With teacher forcing it reads the reference, whatever it predicts."""
    token, all_logits = torch.full_like(target[:, 0], BOS), []
    for _ in range(target.shape[1]):
        logits, state = step(token, state)
        token = logits.argmax(1)
        all_logits.append(logits)
    return cross_entropy(torch.cat(all_logits), target.T.flatten(), ignore_index=PAD)


def not_shifted(target: Tensor, step: Step, state: Tensor) -> Tensor:
    """The decoder reads yₜ in the step that predicts yₜ: it learns to copy. It must read BOS first, then yₜ₋₁."""
    all_logits = []
    for gold in target.unbind(1):
        logits, state = step(gold, state)
        all_logits.append(logits)
    return cross_entropy(torch.cat(all_logits), target.T.flatten(), ignore_index=PAD)


def padding_counts(target: Tensor, step: Step, state: Tensor) -> Tensor:
    """Padding counts as tokens. Leave it out of the sum and of n."""
    token, all_logits = torch.full_like(target[:, 0], BOS), []
    for gold in target.unbind(1):
        logits, state = step(token, state)
        token = gold
        all_logits.append(logits)
    return cross_entropy(torch.cat(all_logits), target.T.flatten())


def mean_of_sentences(target: Tensor, step: Step, state: Tensor) -> Tensor:
    """This is the mean of one mean per sentence: tokens of short sentences count more. Divide the total sum once."""
    token, total = torch.full_like(target[:, 0], BOS), torch.zeros(len(target))
    for gold in target.unbind(1):
        logits, state = step(token, state)
        total = total + cross_entropy(logits, gold, ignore_index=PAD, reduction="none")
        token = gold
    return (total / (target != PAD).sum(1)).mean()
