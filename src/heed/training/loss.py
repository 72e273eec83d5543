"""Training losses of a batch, with R-Drop and SimCut, as sums over target tokens.

They are divided once, by the number of target tokens of the whole step.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import kernels
from heed.kernels import Consistency
from heed.models.seq2seq import DecoderHidden
from heed.symbols import BOS, EOS, PAD


def translation_loss(
    output: DecoderHidden,
    target: Int[Tensor, "*B T"],
    positions: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    consistency: Consistency | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the training loss and the negative log-likelihood, in nats.

    The loss is the label-smoothed cross-entropy (`heed.functional.cross_entropy`) or, with ``consistency``, R-Drop's
    or SimCut's of two passes of the model (`heed.functional.two_pass_loss`).

    Args:
        output: of two passes, those of sentence b are the rows 2 b and 2 b + 1.
        positions: the tokens to sum over, as positions in the flattened ``target``. Padding is left out, and a mask of
            it would make the host wait for the device.
    """
    states, tokens = output.states.flatten(0, -2), target.flatten().index_select(0, positions).long()
    layer = (output.weight, output.bias, tokens)
    if consistency is None:
        return kernels.cross_entropy(states.index_select(0, positions), *layer, label_smoothing=label_smoothing)
    length = target.shape[-1]
    first = positions + positions // length * length
    hidden = torch.stack([states.index_select(0, first), states.index_select(0, first + length)])
    return kernels.two_pass_loss(hidden, *layer, label_smoothing=label_smoothing, consistency=consistency)


def cut_second_passes(tokens: Int[Tensor, "R T"], probability: float) -> Int[Tensor, "R T"]:
    """Cut tokens out of every second row at random: replace them by PAD, whose embedding is zero (Gao et al. 2022).

    BOS and EOS remain, as in the authors' implementation.
    """
    cut = torch.rand(tokens.shape, device=tokens.device) < probability
    cut[::2] = False
    return tokens.masked_fill(cut & (tokens != BOS) & (tokens != EOS), PAD)


def zero_loss(model: torch.nn.Module) -> Float[Tensor, ""]:
    """Return zero with a gradient for every parameter, for a process that has no micro-batch in a step."""
    return torch.stack([parameter.sum() * 0 for parameter in model.parameters()]).sum()
