"""Scaled dot-product attention (Vaswani et al. 2017, §3.2.1)."""

from jaxtyping import Float
from torch import Tensor

from heed.functional.dropout import dropout as drop
from heed.functional.masks import Mask, mask_tensor, masked_softmax


def attend(
    query: Float[Tensor, "*B T E"],
    key: Float[Tensor, "*B S E"],
    value: Float[Tensor, "*B S V"],
    mask: Mask,
    *,
    bias: Float[Tensor, "*#B T S"] | None = None,
    scaled: bool = True,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> tuple[Float[Tensor, "*B T V"], Float[Tensor, "*B T S"] | None]:
    """Return the context softmax(QKᵀ/√E + bias)V and the attention weights (Vaswani et al. 2017, eq. 1).

    Args:
        mask: the keys that each query may attend to. A query without such a key gets zeros.
        bias: added to the scores, such as a relative position bias.
        scaled: divide the scores by √E. Without it their variance grows with E.
        dropout: probability of dropping a weight before it is applied to the values (0 when not training).
        need_weights: return the weights, as they are before dropout. Otherwise None is returned in their place.
    """
    scores = attention_scores(query, key, bias, scaled=scaled)
    weights = masked_softmax(scores, mask_tensor(mask, query, key))
    return drop(weights, dropout) @ value, weights if need_weights else None


def attention_scores(
    query: Float[Tensor, "*B T E"], key: Float[Tensor, "*B S E"], bias: Float[Tensor, "*#B T S"] | None, *, scaled: bool
) -> Float[Tensor, "*B T S"]:
    """Return QKᵀ/√E + bias; without scaling QKᵀ + bias."""
    scores = (query * query.shape[-1] ** -0.5 if scaled else query) @ key.transpose(-2, -1)
    return scores if bias is None else scores + bias
