"""Cross-entropy as a sum and a count, so that it is divided once, by the tokens of the whole step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed.symbols import PAD


def cross_entropy(
    logits: Float[Tensor, "*B V"], target: Int[Tensor, "*B"], *, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed over all tokens that are not padding, in nats: the training loss, and the plain negative log-likelihood.

    The training loss takes (1 - ε) from the right token and ε spread evenly over the vocabulary (Szegedy et al. 2016,
    §7; Vaswani et al. 2017, §5.4). The second value carries no gradient.
    """
    real = target != PAD
    # Padding is dropped before the softmax, which is dear: over the whole vocabulary, and in fp32 or better.
    kept = logits[real]
    log_p = kept.log_softmax(-1, dtype=torch.promote_types(kept.dtype, torch.float32))
    nll = -log_p.gather(-1, target[real][:, None]).sum()
    if not label_smoothing:
        return nll, nll.detach()
    return (1 - label_smoothing) * nll - label_smoothing * log_p.mean(-1).sum(), nll.detach()


def zero_loss(model: torch.nn.Module) -> Float[Tensor, ""]:
    """Zero, through every parameter: what a process backpropagates when a step leaves it no micro-batch."""
    return torch.stack([parameter.sum() * 0 for parameter in model.parameters()]).sum()
