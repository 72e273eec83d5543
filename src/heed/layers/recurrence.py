"""Recurrent layers: tanh, LSTM and GRU."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from heed import kernels
from heed.functional.linear import LinearMap
from heed.functional.recurrence import CELLS, CellState


class RecurrentLayer(nn.Module):
    """One recurrent layer in one direction.

    ``forward`` processes whole sequences. Where a step depends on what happens between the steps (attention), the
    caller uses ``input_gates`` for all positions at once, and ``step`` for each.
    """

    def __init__(self, cell: str, *, input_width: int, width: int) -> None:
        super().__init__()
        self.cell = CELLS[cell]
        self.layer = self.cell.module(input_width, width, batch_first=True)
        if cell == "lstm":
            # Opens the forget gate, so that gradients reach far back (Jozefowicz et al. 2015, §2.2).
            _, _, _, bias = self.layer.all_weights[0]
            with torch.no_grad():
                bias.chunk(4)[1].add_(1)

    def initial_state(self, rows: int) -> CellState:
        """Return a state of zeros."""
        _, weight, *_ = self.layer.all_weights[0]
        return (weight.new_zeros(rows, self.layer.hidden_size),) * self.cell.parts

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        state: CellState,
        *,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], CellState]:
        """Return the output at every position and the last state: see `heed.functional.recur`."""
        return kernels.recur(self.cell, self.layer, x, state, lengths=lengths)

    def input_gates(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B G"]:
        """Return W x + b."""
        weight, _, bias, _ = self.layer.all_weights[0]
        return F.linear(x, weight, bias)

    def hidden_gates(self) -> LinearMap:
        """Return the function h ↦ U h + b', for the steps of one forward pass."""
        _, weight, _, bias = self.layer.all_weights[0]
        return kernels.repeated_linear(weight, bias)

    def step(self, input_gates: Float[Tensor, "B G"], state: CellState, hidden_gates: LinearMap) -> CellState:
        """Return the state one position later."""
        return self.cell.advance(input_gates, hidden_gates(state[0]), state)
