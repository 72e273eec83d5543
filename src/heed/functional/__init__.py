"""The formulas of heed as plain functions, each readable as its paper.

Layers call the functions of the same names in :mod:`heed.kernels`, which compute the same, faster where possible.
"""

from heed.functional.attention import attend, causal_mask, masked_softmax
from heed.functional.linear import cast_for_matmul, prepared_linear, repeated_linear
from heed.functional.loss import cross_entropy, r_drop_loss
from heed.functional.recurrence import recur
from heed.functional.topk import stable_topk

__all__ = [
    "attend",
    "cast_for_matmul",
    "causal_mask",
    "cross_entropy",
    "masked_softmax",
    "prepared_linear",
    "r_drop_loss",
    "recur",
    "repeated_linear",
    "stable_topk",
]
