"""Recurrent layers by torch's kernels for whole sequences, where they can be used and are faster."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from heed.functional.recurrence import Cell, CellState, run_steps
from heed.kernels.choice import is_plain
from heed.kernels.linear import repeated_linear


def recur(
    cell: Cell,
    weights: nn.RNNBase,
    x: Float[Tensor, "B T I"],
    state: CellState,
    *,
    lengths: Int[Tensor, " B"] | None = None,
) -> tuple[Float[Tensor, "B T D"], CellState]:
    """Compute :func:`heed.functional.recur`."""
    if is_plain() or not _use_torch_kernel(x, lengths):
        input_weight, hidden_weight, input_bias, hidden_bias = weights.all_weights[0]
        gates = F.linear(x, input_weight, input_bias).unbind(1)
        return run_steps(cell, gates, state, repeated_linear(hidden_weight, hidden_bias), lengths=lengths)
    if lengths is None:
        return _run(weights, x, state)
    # Sorted here, because torch would read its order back from the device.
    order = lengths.argsort(descending=True)
    rows, back = (indices.to(x.device, non_blocking=True) for indices in (order, order.argsort()))
    packed = pack_padded_sequence(x.index_select(0, rows), lengths[order], batch_first=True)
    packed_out, final = _run(weights, packed, [part.index_select(0, rows) for part in state])
    out, _ = pad_packed_sequence(packed_out, batch_first=True, total_length=x.shape[1])
    return out.index_select(0, back), tuple(part.index_select(0, back) for part in final)


def _run(weights: nn.RNNBase, x: Any, state: Sequence[Float[Tensor, "B D"]]) -> tuple[Any, CellState]:
    """Apply torch's module, whose states have an axis for layers and are single tensors if they have one part."""
    first, *others = (part[None] for part in state)
    out, final = weights(x, (first, *others) if others else first)
    return out, tuple(part[0] for part in (final if others else [final]))


def _use_torch_kernel(x: Float[Tensor, "B T I"], lengths: Int[Tensor, " B"] | None) -> bool:
    """Return whether to use torch's kernel: not for a single step of the decoder, which it starts slowly.

    Nor under bf16 autocast on CPUs without AVX-512, where oneDNN's LSTM raises an error. torch takes that one unless
    the sequences differ in length.
    """
    bf16 = x.is_cpu and torch.is_autocast_enabled("cpu")
    if bf16 and torch.backends.cpu.get_cpu_capability() != "AVX512":
        return lengths is not None and bool(lengths.min() < lengths.max())
    return lengths is not None or x.shape[1] > 1
