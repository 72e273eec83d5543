"""From scores to attention weights, over the whole source or a window of it, for the RNN's attention."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed import kernels

RowScores = Float[Tensor, "B T S"]


class Reach(nn.Module):
    """Global attention: a_t = softmax over the whole source (Luong et al. 2015, eq. 7).

    Args:
        query_width: D of the decoder states.
        window: D of the local reaches: positions on either side of the center. None for global attention.
    """

    def __init__(self, *, query_width: int, window: int | None) -> None:
        super().__init__()
        self.window = window or 0

    def forward(
        self, scores: RowScores, query: Float[Tensor, "B T D"], mask: Bool[Tensor, "B S"], start: int
    ) -> RowScores:
        """Return the attention weights of decoder states at the target positions from ``start`` on.

        Rows sum to 1, or to 0 without a position to attend to. `PredictiveReach` also gives sums below 1.
        """
        return kernels.masked_softmax(scores, mask[:, None])


class MonotonicReach(Reach):
    """Local-m attention: softmax over the window [p_t − D, p_t + D] with p_t = t (Luong et al. 2015, §3.2).

    The window is cut at the ends of the sentence. Target positions more than D beyond the end of the source have an
    empty window and a context of zeros. Positions are counted from 0.
    """

    def forward(
        self, scores: RowScores, query: Float[Tensor, "B T D"], mask: Bool[Tensor, "B S"], start: int
    ) -> RowScores:
        T, S = scores.shape[1:]
        position = torch.arange(start, start + T, device=scores.device)
        return kernels.masked_softmax(scores, mask[:, None] & (_offsets(position[None], S).abs() <= self.window))


class PredictiveReach(Reach):
    """Local-p attention: a window around p_t = S · σ(v_pᵀ tanh(W_p h_t)) (Luong et al. 2015, eq. 9 and 10).

    S is the length of the sentence. a_t(s) is the softmax over [p_t − D, p_t + D] times exp(−(s − p_t)² / 2σ²) with
    σ = D/2. As in the paper the product is not normalised again, so rows sum to less than 1. The Gaussian carries the
    gradient to p_t.
    """

    def __init__(self, *, query_width: int, window: int | None) -> None:
        super().__init__(query_width=query_width, window=window)
        self.W_p = nn.Linear(query_width, query_width, bias=False)
        self.v_p = nn.Linear(query_width, 1, bias=False)

    def forward(
        self, scores: RowScores, query: Float[Tensor, "B T D"], mask: Bool[Tensor, "B S"], start: int
    ) -> RowScores:
        offsets = _offsets(self.center(query, mask), scores.shape[2])
        weights = kernels.masked_softmax(scores, mask[:, None] & (offsets.abs() <= self.window))
        sigma = self.window / 2
        return weights * torch.exp(-(offsets**2) / (2 * sigma**2)).to(weights.dtype)

    def center(self, query: Float[Tensor, "B T D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B T"]:
        """Return p_t, a real number between 0 and the length of the sentence."""
        relative = torch.sigmoid(self.v_p(torch.tanh(self.W_p(query)))).squeeze(-1)
        # In fp32 at least: bf16 has no number between 128 and 129.
        return mask.sum(1, keepdim=True) * relative.to(torch.promote_types(relative.dtype, torch.float32))


def _offsets(
    center: Float[Tensor, "#B T"] | Int[Tensor, "#B T"], size: int
) -> Float[Tensor, "#B T S"] | Int[Tensor, "#B T S"]:
    """Return s − p_t for every source position s."""
    return torch.arange(size, device=center.device) - center[..., None]


REACHES = {"global": Reach, "local_m": MonotonicReach, "local_p": PredictiveReach}
"""The reaches by their names in `model.attention.reach`."""
