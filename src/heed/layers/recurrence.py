"""Recurrent layers: tanh, LSTM and GRU, over whole sequences in torch's own kernels or one step at a time."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from heed.kernels.unrolled import Unrolled

CellState = tuple[Tensor, ...]
"""What a layer remembers, each "B D": (h, c) of an LSTM, (h,) of the others. The first is also its output."""


def tanh(x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], before: CellState) -> CellState:
    """h' = tanh(W x + b + U h + b') (Elman 1990)."""
    return (torch.tanh(x + h),)


def lstm(x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], before: CellState) -> CellState:
    """c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c') (Hochreiter & Schmidhuber 1997; f: Gers et al. 2000)."""
    i, f, g, o = (x + h).chunk(4, 1)
    c = f.sigmoid() * before[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(x: Float[Tensor, "B G"], h: Float[Tensor, "B G"], before: CellState) -> CellState:
    """h' = (1 − z) tanh(W x + b + r (U h + b')) + z h (Cho et al. 2014; r behind the matrix, as in cuDNN)."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, 1), h.chunk(3, 1)
    z = torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return (n + z * (before[0] - n),)


@dataclass(frozen=True)
class Cell:
    """A kind of recurrence."""

    advance: Callable[[Tensor, Tensor, CellState], CellState]
    """From the input's and the state's share of the gates, and the state before, to the state after."""
    gates: int
    parts: int
    """Of its state."""
    layer: Callable[..., nn.RNNBase]
    """The same over a whole sequence."""


CELLS = {
    "tanh": Cell(tanh, gates=1, parts=1, layer=nn.RNN),
    "lstm": Cell(lstm, gates=4, parts=2, layer=nn.LSTM),
    "gru": Cell(gru, gates=3, parts=1, layer=nn.GRU),
}


class RecurrentLayer(nn.Module):
    """One layer in one direction.

    The weights are in a layer of torch's, whose kernels run over whole sequences. Where that cannot be, because steps
    depend on what happens between them or a mask stands on the state, ``gates`` and ``step`` do the same one by one:
    ``gates`` for all that is known beforehand, in one product.
    """

    def __init__(self, cell: str, *, input_width: int, width: int) -> None:
        super().__init__()
        self.cell = CELLS[cell]
        self.layer = self.cell.layer(input_width, width, batch_first=True)

    def zeros(self, rows: int) -> CellState:
        """What a sentence starts from where nothing is before it."""
        _, weight, *_ = self.layer.all_weights[0]
        return (weight.new_zeros(rows, self.layer.hidden_size),) * self.cell.parts

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        before: CellState,
        *,
        lengths: Int[Tensor, " B"] | None = None,
        mask: Float[Tensor, "B D"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], CellState]:
        """The output at every position, and the state behind the last.

        Args:
            lengths: of the sentences (on the CPU), where padding follows them: its outputs are then zeros, and the
                state is that behind the last word.
            mask: of the state on its way into the gates (variational dropout).
        """
        if mask is not None or (lengths is None and not _repays(x)):
            return self._step_by_step(x, before, lengths, mask)
        state = tuple(part[None] for part in before)
        initial = state if len(state) > 1 else state[0]
        if lengths is None:
            out, final = self.layer(x, initial)
        else:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            packed_out, final = self.layer(packed, initial)
            out, _ = pad_packed_sequence(packed_out, batch_first=True, total_length=x.shape[1])
        return out, tuple(part[0] for part in (final if isinstance(final, tuple) else (final,)))

    def gates(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B G"]:
        """The input's share of the gates, for any number of steps at once."""
        weight, _, bias, _ = self.layer.all_weights[0]
        return F.linear(x, weight, bias)

    def recurrence(self) -> Unrolled:
        """The state's share of the gates, for the steps of one pass."""
        _, weight, _, bias = self.layer.all_weights[0]
        return Unrolled(weight, bias)

    def step(
        self,
        gates: Float[Tensor, "B G"],
        before: CellState,
        recurrence: Unrolled,
        mask: Float[Tensor, "B D"] | None = None,
    ) -> CellState:
        """The state one position further."""
        h = before[0] if mask is None else before[0] * mask
        return self.cell.advance(gates, recurrence(h), before)

    def _step_by_step(
        self,
        x: Float[Tensor, "B T I"],
        state: CellState,
        lengths: Int[Tensor, " B"] | None,
        mask: Float[Tensor, "B D"] | None,
    ) -> tuple[Float[Tensor, "B T D"], CellState]:
        ends = None if lengths is None else lengths.to(x.device)[:, None]
        out, recurrence = [], self.recurrence()
        for t, gates in enumerate(self.gates(x).unbind(1)):
            after = self.step(gates, state, recurrence, mask)
            if ends is None:
                out.append(after[0])
            else:
                inside = t < ends
                out.append(after[0] * inside)
                after = tuple(torch.where(inside, new, old) for new, old in zip(after, state, strict=True))
            state = after
        return torch.stack(out, 1), state


def _repays(x: Float[Tensor, "B T I"]) -> bool:
    """Whether to hand a batch to torch's kernels: one step is not worth what they spend on their start.

    And the LSTM that torch takes from oneDNN raises in bf16 where the CPU has no AVX-512.
    """
    bf16 = x.device.type == "cpu" and torch.is_autocast_enabled("cpu")
    return x.shape[1] > 1 and not (bf16 and torch.backends.cpu.get_cpu_capability() != "AVX512")
