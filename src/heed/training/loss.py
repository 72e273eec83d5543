"""Training losses of a batch, as sums over target tokens.

They are divided once, by the number of target tokens of the whole step.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed import kernels
from heed.kernels import Consistency
from heed.models.seq2seq import DecoderHidden
from heed.symbols import BOS, EOS, PAD


def cross_entropy(
    output: DecoderHidden, target: Int[Tensor, "*B"], positions: Int[Tensor, " N"], *, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed cross-entropy and the negative log-likelihood, in nats.

    See `heed.functional.cross_entropy`.

    Args:
        positions: the tokens to sum over, as positions in the flattened ``target``. Padding is left out, and a mask of
            it would make the host wait for the device.
    """
    states = output.states.flatten(0, -2).index_select(0, positions)
    tokens = target.flatten().index_select(0, positions).long()
    return kernels.cross_entropy(states, output.weight, output.bias, tokens, label_smoothing=label_smoothing)


def two_pass_loss(
    both: DecoderHidden,
    target: Int[Tensor, "B T"],
    positions: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    consistency: Consistency,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the loss of two passes of one model, and the mean negative log-likelihood of the supervised ones.

    See `heed.functional.two_pass_loss`.

    Args:
        both: the two passes of sentence b in the rows 2 b and 2 b + 1.
        positions: as in `cross_entropy`.
    """
    length = target.shape[1]
    first = positions + positions // length * length
    states = both.states.flatten(0, 1)
    hidden = torch.stack([states.index_select(0, first), states.index_select(0, first + length)])
    tokens = target.flatten().index_select(0, positions).long()
    return kernels.two_pass_loss(
        hidden, both.weight, both.bias, tokens, label_smoothing=label_smoothing, consistency=consistency
    )


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
