"""What models are fed: padded id tensors with their masks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.symbols import BOS, EOS, PAD

if TYPE_CHECKING:
    from heed.data.encoded import Ragged


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, each side one padded rectangle. EOS ends every source and target; BOS opens ``tgt_in``."""

    src: Int[Tensor, "B S"]
    src_mask: Bool[Tensor, "B S"]
    tgt_in: Int[Tensor, "B T"]
    tgt_out: Int[Tensor, "B T"]
    index: Int[Tensor, " B"]
    """The rows' numbers in their split."""

    @property
    def tgt_tokens(self) -> int:
        """Target tokens, EOS counted, padding not."""
        return int((self.tgt_out != PAD).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


def collate(index: npt.NDArray[np.integer], src: "Ragged", tgt: "Ragged") -> Batch:
    """The pairs with these numbers, as one batch."""
    src_ids, src_ends = _rectangle(index, src)
    tgt_ids, tgt_ends = _rectangle(index, tgt)
    rows = np.arange(len(index))
    src_ids[rows, src_ends] = EOS
    tgt_in = np.roll(tgt_ids, 1, axis=1)
    tgt_in[:, 0] = BOS
    tgt_out = tgt_ids
    tgt_out[rows, tgt_ends] = EOS
    src_mask = np.arange(src_ids.shape[1]) <= src_ends[:, None]
    arrays = (src_ids, src_mask, tgt_in, tgt_out, np.asarray(index, dtype=np.int64))
    return Batch(*map(torch.from_numpy, arrays))


def _rectangle(index: npt.NDArray[np.integer], ragged: "Ragged") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The sequences, padded, with one column to spare behind the longest; and their lengths."""
    starts = ragged.offsets[index]
    lengths = ragged.offsets[index + 1] - starts
    columns = np.arange(int(lengths.max()) + 1)
    inside = columns < lengths[:, None]
    ids = np.full(inside.shape, PAD, dtype=np.int64)
    ids[inside] = ragged.values[(starts[:, None] + columns)[inside]]
    return ids, lengths
