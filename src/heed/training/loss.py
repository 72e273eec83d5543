"""Training losses of a batch, as sums over target tokens.

They are divided once, by the number of target tokens of the whole step.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import kernels
from heed.models.seq2seq import DecoderHidden


def translation_loss(
    output: DecoderHidden,
    target: Int[Tensor, "*B T"],
    positions: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    r_drop: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the training loss and the negative log-likelihood, in nats.

    The loss is the label-smoothed cross-entropy (`heed.functional.cross_entropy`) or, with ``r_drop``, that of
    two passes of the model (`heed.functional.r_drop_loss`).

    Args:
        output: of two passes, those of sentence b are the rows 2 b and 2 b + 1.
        positions: the tokens to sum over, as positions in the flattened ``target``. Padding is left out, and a mask of
            it would make the host wait for the device.
    """
    states, tokens = output.states.flatten(0, -2), target.flatten().index_select(0, positions).long()
    layer = (output.weight, output.bias, tokens)
    if not r_drop:
        return kernels.cross_entropy(states.index_select(0, positions), *layer, label_smoothing=label_smoothing)
    length = target.shape[-1]
    first = positions + positions // length * length
    hidden = torch.stack([states.index_select(0, first), states.index_select(0, first + length)])
    return kernels.r_drop_loss(hidden, *layer, label_smoothing=label_smoothing, alpha=r_drop)


def zero_loss(model: torch.nn.Module) -> Float[Tensor, ""]:
    """Return zero with a gradient for every parameter, for a process that has no micro-batch in a step."""
    return torch.stack([parameter.sum() * 0 for parameter in model.parameters()]).sum()
