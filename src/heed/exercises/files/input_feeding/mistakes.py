"""Mistakes that the check explains."""

from collections.abc import Callable

import torch
from torch import Tensor

Cell = Callable[[Tensor, Tensor], Tensor]


def _decode(x: Tensor, h: Tensor, states: Tensor, cell: Cell, W_c: Tensor, feed: str, order: str = "context") -> Tensor:
    fed, outputs = torch.zeros_like(h), []
    for x_t in x.unbind(1):
        h = cell(torch.cat((x_t, fed), 1), h)
        context = ((states @ h[:, :, None]).softmax(1) * states).sum(1)
        both = (context, h) if order == "context" else (h, context)
        attentional = torch.tanh(torch.cat(both, 1) @ W_c.T)
        fed = {"attentional": attentional, "hidden": h, "context": context, "nothing": fed}[feed]
        outputs.append(attentional)
    return torch.stack(outputs, 1)


def never_fed(x: Tensor, h: Tensor, states: Tensor, cell: Cell, W_c: Tensor) -> Tensor:
    """The cell always reads zeros after xₜ. It must read h̃ₜ₋₁, so that it knows where it attended before."""
    return _decode(x, h, states, cell, W_c, "nothing")


def hidden_state_fed(x: Tensor, h: Tensor, states: Tensor, cell: Cell, W_c: Tensor) -> Tensor:
    """The hidden state hₜ₋₁ is fed. It must be the attentional state h̃ₜ₋₁, which knows the context."""
    return _decode(x, h, states, cell, W_c, "hidden")


def context_fed(x: Tensor, h: Tensor, states: Tensor, cell: Cell, W_c: Tensor) -> Tensor:
    """The context cₜ₋₁ is fed. It must be the attentional state h̃ₜ₋₁ = tanh(W_c [cₜ₋₁; hₜ₋₁])."""
    return _decode(x, h, states, cell, W_c, "context")


def hidden_state_first(x: Tensor, h: Tensor, states: Tensor, cell: Cell, W_c: Tensor) -> Tensor:
    """W_c is multiplied with [hₜ; cₜ]. The order is [cₜ; hₜ]."""
    return _decode(x, h, states, cell, W_c, "attentional", order="hidden")
