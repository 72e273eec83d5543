"""How far does a decoder state see? From scores to attention weights, over the whole source or a window of it."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed.functional.masks import masked_softmax


class Reach(nn.Module):
    """*Global*: a_t = softmax over the whole source (Luong et al. 2015, eq. 7)."""

    def forward(
        self,
        scores: Float[Tensor, "B T S"],
        query: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B S"],
        start: int,
    ) -> Float[Tensor, "B T S"]:
        """The weights of the target positions ``start``, ``start`` + 1, …, one query each.

        A row sums to 1 or, where it has nothing to look at, to 0; a reach may weigh it down further and says so.
        """
        return masked_softmax(scores, mask[:, None])


class MonotonicReach(Reach):
    """*Local-m*: softmax over the window [p_t − D, p_t + D] with p_t = t (Luong et al. 2015, §3.2).

    What crosses the ends of the sentence is ignored. A target that runs further than D past the end of its source
    sees nothing there, and its context is zero. Positions count from 0 on both sides.
    """

    def __init__(self, *, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(
        self,
        scores: Float[Tensor, "B T S"],
        query: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B S"],
        start: int,
    ) -> Float[Tensor, "B T S"]:
        T, S = scores.shape[1:]
        position = torch.arange(start, start + T, device=scores.device)
        return masked_softmax(scores, mask[:, None] & (_offsets(position[None], S).abs() <= self.window))


class PredictiveReach(Reach):
    """*Local-p*: p_t = S · σ(v_pᵀ tanh(W_p h_t)), S the sentence's true length (Luong et al. 2015, eq. 9 and 10).

    a_t(s) = softmax_s over the window [p_t − D, p_t + D], times exp(−(s − p_t)² / 2σ²) with σ = D/2. The Gaussian is
    not normalised again, so that a row sums to less than 1; it is what carries a gradient to p_t.
    """

    def __init__(self, *, query_width: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.W_p = nn.Linear(query_width, query_width, bias=False)
        self.v_p = nn.Linear(query_width, 1, bias=False)

    def forward(
        self,
        scores: Float[Tensor, "B T S"],
        query: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B S"],
        start: int,
    ) -> Float[Tensor, "B T S"]:
        offsets = _offsets(self.center(query, mask), scores.shape[2])
        weights = masked_softmax(scores, mask[:, None] & (offsets.abs() <= self.window))
        sigma = self.window / 2
        return weights * torch.exp(-(offsets**2) / (2 * sigma**2)).to(weights.dtype)

    def center(self, query: Float[Tensor, "B T D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B T"]:
        """p_t, a real number between 0 and the sentence's length."""
        share = torch.sigmoid(self.v_p(torch.tanh(self.W_p(query)))).squeeze(-1)
        # bf16 has no number between 128 and 129.
        return mask.sum(1, keepdim=True) * share.to(torch.promote_types(share.dtype, torch.float32))


def _offsets(
    center: Float[Tensor, "#B T"] | Int[Tensor, "#B T"], size: int
) -> Float[Tensor, "#B T S"] | Int[Tensor, "#B T S"]:
    """s − p_t for every source position s."""
    return torch.arange(size, device=center.device) - center[..., None]


REACHES = ("global", "local_m", "local_p")


def build_reach(kind: str, *, query_width: int, window: int | None) -> Reach:
    """The reach of this name; ``window`` is the D of the local ones."""
    if kind == "global":
        return Reach()
    assert window is not None
    return (
        MonotonicReach(window=window) if kind == "local_m" else PredictiveReach(query_width=query_width, window=window)
    )
