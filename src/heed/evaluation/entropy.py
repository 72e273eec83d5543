"""How widely an attention head spreads its weights."""

import numpy as np
import numpy.typing as npt

from heed.evaluation.words import AttentionMap


def normalized_entropy(weights: AttentionMap, *, causal: bool = False) -> npt.NDArray[np.float64]:
    """Return H(α) / log K of each row "… Q K": 0 if it attends to one key, 1 if to all K keys alike.

    Rows with a single key have no entropy: NaN.

    Args:
        causal: row t has the keys up to t, instead of all.
    """
    log = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    queries, keys = weights.shape[-2:]
    with np.errstate(invalid="ignore"):  # 0 / log 1
        return -(weights * log).sum(-1) / np.log(np.arange(queries) + 1.0 if causal else keys)
