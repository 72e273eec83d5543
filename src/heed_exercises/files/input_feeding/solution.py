"""Decoder with attention and input feeding (Luong et al. 2015, §3.3)."""

from collections.abc import Callable

import torch
from torch import Tensor


def input_feeding(
    x: Tensor, h: Tensor, states: Tensor, cell: Callable[[Tensor, Tensor], Tensor], W_c: Tensor
) -> Tensor:
    """Return the attentional states h̃_1 … h̃_T of a decoder that attends with the dot score.

    At every position, with h̃_0 = 0:

        hₜ = cell([xₜ; h̃ₜ₋₁], hₜ₋₁)
        cₜ = Σₛ aₜₛ hₛ, aₜ = softmax over s of hₜᵀ hₛ
        h̃ₜ = tanh(W_c [cₜ; hₜ])

    Args:
        x: the embedded target tokens xₜ, shape (B, T, I).
        h: the first state h_0, shape (B, D).
        states: the source states hₛ, shape (B, S, D), without padding.
        cell: a recurrent cell: (input of shape (B, I + D), state of shape (B, D)) → next state of shape (B, D).
        W_c: shape (D, 2 D).

    Returns:
        The attentional states, shape (B, T, D).
    """
    fed, outputs = torch.zeros_like(h), []
    for x_t in x.unbind(1):
        h = cell(torch.cat((x_t, fed), 1), h)
        weights = (states @ h[:, :, None]).softmax(1)  # (B, S, 1)
        context = (weights * states).sum(1)
        fed = torch.tanh(torch.cat((context, h), 1) @ W_c.T)
        outputs.append(fed)
    return torch.stack(outputs, 1)
