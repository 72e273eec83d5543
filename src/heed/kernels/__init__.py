"""Fast implementations of the functions in :mod:`heed.functional`, with the same names and signatures, and of dropout.

This is the only place where heed chooses between implementations, by device, dtype and size. Each function here agrees
with its formula in values and gradients (tests/kernels), and inside :func:`plain` it *is* the formula. What each gains
is listed in docs/performance.md.
"""

from heed.functional import causal_mask, prepared_linear
from heed.kernels.attention import attend, masked_softmax
from heed.kernels.choice import plain
from heed.kernels.dropout import dropout
from heed.kernels.linear import WeightPacker, cast_for_matmul, repeated_linear
from heed.kernels.loss import cross_entropy, r_drop_loss
from heed.kernels.recurrence import recur
from heed.kernels.topk import stable_topk

__all__ = [
    "WeightPacker",
    "attend",
    "cast_for_matmul",
    "causal_mask",
    "cross_entropy",
    "dropout",
    "masked_softmax",
    "plain",
    "prepared_linear",
    "r_drop_loss",
    "recur",
    "repeated_linear",
    "stable_topk",
]
