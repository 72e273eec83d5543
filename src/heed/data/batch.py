"""Model input: padded token ids with their masks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.symbols import BOS, EOS, PAD

if TYPE_CHECKING:
    from heed.data.ragged import Ragged


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as padded tensors. EOS ends every source and every target; BOS starts ``tgt_in``.

    Masks follow the project's convention: True at tokens, False at padding.
    """

    src: Int[Tensor, "B S"]
    src_mask: Bool[Tensor, "B S"]
    tgt_in: Int[Tensor, "B T"]
    tgt_out: Int[Tensor, "B T"]
    index: Int[Tensor, " B"]
    """Index of each pair in its split."""
    corpora: tuple[Int[Tensor, " _"], ...] = ()
    """The rows of each corpus of a mixture; empty unless corpora are mixed."""

    @property
    def tgt_tokens(self) -> int:
        """Number of target tokens, including EOS, without padding."""
        return int((self.tgt_out != PAD).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on another device."""
        tensors = {name: value for name, value in vars(self).items() if name != "corpora"}
        moved = {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}
        return Batch(**moved, corpora=tuple(rows.to(device, non_blocking=True) for rows in self.corpora))


def collate(
    index: npt.NDArray[np.integer],
    src: "Ragged",
    tgt: "Ragged",
    *,
    corpus: npt.NDArray[np.integer] | None = None,
    corpora: int = 0,
) -> Batch:
    """Return the pairs with these indices as one batch.

    Args:
        index: indices of the pairs, in the order of the batch's rows.
        src, tgt: token ids of all pairs, without BOS and EOS.
        corpus: the corpus of each of the pairs in the batch; None: they are not mixed.
        corpora: number of corpora.
    """
    src_ids, src_lengths = _pad(index, src)
    tgt_ids, tgt_lengths = _pad(index, tgt)
    rows = np.arange(len(index))
    src_ids[rows, src_lengths] = EOS
    tgt_in = np.roll(tgt_ids, 1, axis=1)
    tgt_in[:, 0] = BOS
    tgt_out = tgt_ids
    tgt_out[rows, tgt_lengths] = EOS
    src_mask = np.arange(src_ids.shape[1]) <= src_lengths[:, None]
    arrays = (src_ids, src_mask, tgt_in, tgt_out, np.asarray(index, dtype=np.int64))
    groups = [] if corpus is None else [np.flatnonzero(corpus == number) for number in range(corpora)]
    src_tensor, mask, tgt_tensor, out, rows_in_split = map(torch.from_numpy, arrays)
    return Batch(src_tensor, mask, tgt_tensor, out, rows_in_split, tuple(map(torch.from_numpy, groups)))


def _pad(index: npt.NDArray[np.integer], ragged: "Ragged") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the sequences padded to one token more than the longest, which leaves room for EOS, and their lengths."""
    starts = ragged.offsets[index]
    lengths = ragged.offsets[index + 1] - starts
    columns = np.arange(int(lengths.max()) + 1)
    inside = columns < lengths[:, None]
    ids = np.full(inside.shape, PAD, dtype=np.int64)
    ids[inside] = ragged.values[(starts[:, None] + columns)[inside]]
    return ids, lengths
