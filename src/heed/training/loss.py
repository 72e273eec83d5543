"""Training losses of a batch, as sums over target tokens.

They are divided once, by the number of target tokens of the whole step.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import kernels
from heed.models.seq2seq import DecoderHidden
from heed.symbols import PAD


def cross_entropy(
    output: DecoderHidden, target: Int[Tensor, "*B"], *, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed cross-entropy and the negative log-likelihood of all tokens but padding, in nats.

    See `heed.functional.cross_entropy`.
    """
    real = target != PAD
    return kernels.cross_entropy(
        output[real].states, output.weight, output.bias, target[real], label_smoothing=label_smoothing
    )


def r_drop(
    passes: tuple[DecoderHidden, DecoderHidden], target: Int[Tensor, "*B"], *, label_smoothing: float, alpha: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the R-Drop loss of two passes of one model, and their mean negative log-likelihood, without padding.

    See `heed.functional.r_drop`.
    """
    real, (first, second) = target != PAD, passes
    hidden = torch.stack([first[real].states, second[real].states])
    return kernels.r_drop(hidden, first.weight, first.bias, target[real], label_smoothing=label_smoothing, alpha=alpha)


def zero_loss(model: torch.nn.Module) -> Float[Tensor, ""]:
    """Return zero with a gradient for every parameter, for a process that has no micro-batch in a step."""
    return torch.stack([parameter.sum() * 0 for parameter in model.parameters()]).sum()
