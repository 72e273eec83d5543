"""Recurrent cells and their application to sequences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heed.functional.linear import LinearMap, repeated_linear

CellState = tuple[Tensor, ...]
"""The state of a layer, each part "B D": (h, c) for an LSTM, (h,) for the others. h is also the output."""


def tanh(x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], state: CellState) -> CellState:
    """h' = tanh(W x + b + U h + b') (Elman 1990)."""
    return (torch.tanh(x + h),)


def lstm(x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], state: CellState) -> CellState:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c') (Hochreiter & Schmidhuber 1997; f: Gers et al. 2000)."""
    i, f, g, o = (x + h).chunk(4, 1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], state: CellState) -> CellState:
    """h' = (1 − z) tanh(W x + b + r (U h + b')) + z h (Cho et al. 2014; r after the product with U, as in cuDNN)."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, 1), h.chunk(3, 1)
    z = torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return (n + z * (state[0] - n),)


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent cell."""

    advance: Callable[[Tensor, Tensor, CellState], CellState]  # (W x + b, U h + b', state) → next state
    gates: int  # the rows of W and U are ``gates`` × the width of the state
    parts: int  # the number of tensors in its state
    module: Callable[..., nn.RNNBase]  # torch's implementation for whole sequences, which also holds the weights


CELLS = {
    "tanh": Cell(tanh, gates=1, parts=1, module=nn.RNN),
    "lstm": Cell(lstm, gates=4, parts=2, module=nn.LSTM),
    "gru": Cell(gru, gates=3, parts=1, module=nn.GRU),
}


def recur(
    cell: Cell,
    weights: nn.RNNBase,
    x: Float[Tensor, "B T I"],
    state: CellState,
    *,
    lengths: Int[Tensor, " B"] | None = None,
) -> tuple[Float[Tensor, "B T D"], CellState]:
    """Apply a recurrent layer in one direction to whole sequences.

    Args:
        weights: a torch module with one layer and one direction, used as the container of W, b, U and b'.
        state: the state before the first position.
        lengths: the lengths of the sequences (on the CPU) if padding follows them. Outputs at padding are zeros and the
            returned state is that after the last position before the padding.

    Returns:
        The output at every position, and the state after the last one.
    """
    input_weight, hidden_weight, input_bias, hidden_bias = weights.all_weights[0]
    gates = F.linear(x, input_weight, input_bias).unbind(1)
    return run_steps(cell, gates, state, repeated_linear(hidden_weight, hidden_bias), lengths=lengths)


def run_steps(
    cell: Cell,
    gates: Sequence[Float[Tensor, "B G"]],
    state: CellState,
    hidden_to_gates: LinearMap,
    *,
    lengths: Int[Tensor, " B"] | None,
) -> tuple[Float[Tensor, "B T D"], CellState]:
    """Apply a cell position by position, given W x + b of every position and the function h ↦ U h + b'."""
    ends = None if lengths is None else lengths.to(gates[0].device)[:, None]
    outputs = []
    for t, x in enumerate(gates):
        after = cell.advance(x, hidden_to_gates(state[0]), state)
        if ends is None:
            outputs.append(after[0])
        else:
            outputs.append(after[0] * (t < ends))
            after = tuple(torch.where(t < ends, new, old) for new, old in zip(after, state, strict=True))
        state = after
    return torch.stack(outputs, 1), state
