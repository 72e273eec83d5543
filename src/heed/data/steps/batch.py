"""Model input: padded token ids with their masks."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.data.pairs.pairs import Pairs, flatten
from heed.symbols import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as padded tensors. EOS ends every source and every target; BOS starts ``tgt_in``.

    Masks are True at tokens and False at padding. Ids and positions are int32, to halve the copy to a GPU.
    """

    src: Int[Tensor, "B S"]
    src_mask: Bool[Tensor, "B S"]
    tgt_in: Int[Tensor, "B T"]
    tgt_out: Int[Tensor, "B T"]
    index: Int[Tensor, " B"]  # of each pair in its split; always on the CPU
    src_lengths: Int[Tensor, " B"]  # source tokens of each sentence, including EOS; always on the CPU
    tgt_positions: tuple[Int[Tensor, " _"], ...]
    """For each text of a mixture, or the only text: positions of its target tokens, including EOS, in the flattened
    ``tgt_out``."""

    @classmethod
    def without_padding(
        cls, src: Int[Tensor, "B S"], tgt_in: Int[Tensor, "B T"], tgt_out: Int[Tensor, "B T"]
    ) -> "Batch":
        """Return a batch of sentences of the same length."""
        rows, length = src.shape
        return cls(
            src,
            torch.ones_like(src, dtype=torch.bool),
            tgt_in,
            tgt_out,
            index=torch.arange(rows),
            src_lengths=torch.full((rows,), length),
            tgt_positions=(torch.arange(tgt_out.numel(), device=tgt_out.device),),
        )

    @property
    def tgt_tokens(self) -> int:
        """Number of target tokens, including EOS, without padding."""
        return sum(len(positions) for positions in self.tgt_positions)

    @property
    def has_src_padding(self) -> bool:
        """Whether any source is padded."""
        return bool(self.src_lengths.numpy().min() < self.src.shape[1])

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """Return the batch in page-locked memory, for asynchronous copies to a GPU."""
        return self._map(Tensor.pin_memory)

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        names = "src", "src_mask", "tgt_in", "tgt_out"
        moved = {name: function(getattr(self, name)) for name in names}
        return replace(self, **moved, tgt_positions=tuple(map(function, self.tgt_positions)))


def collate(
    index: npt.NDArray[np.integer], pairs: Pairs, *, text_of: npt.NDArray[np.integer] | None = None, texts: int = 0
) -> Batch:
    """Return the pairs with these indices as one batch.

    Args:
        index: indices of the pairs, in the order of the batch's rows.
        text_of: index of the text of each pair in the batch; None without a mixture.
        texts: number of texts.
    """
    src_ids, src_lengths = _pad(index, pairs.src)
    tgt_out, tgt_lengths = _pad(index, pairs.tgt)
    rows = np.arange(len(index))
    src_ids[rows, src_lengths] = EOS
    tgt_in = np.roll(tgt_out, 1, axis=1)
    tgt_in[:, 0] = BOS
    tgt_out[rows, tgt_lengths] = EOS
    src_mask = np.arange(src_ids.shape[1]) <= src_lengths[:, None]
    is_token = np.arange(tgt_out.shape[1]) <= tgt_lengths[:, None]
    groups = [is_token] if text_of is None else [is_token & (text_of == number)[:, None] for number in range(texts)]
    positions = [np.flatnonzero(group).astype(np.int32) for group in groups]
    return Batch(
        src=torch.from_numpy(src_ids),
        src_mask=torch.from_numpy(src_mask),
        tgt_in=torch.from_numpy(tgt_in),
        tgt_out=torch.from_numpy(tgt_out),
        index=torch.from_numpy(pairs.rows[index]),
        src_lengths=torch.from_numpy(src_lengths + 1),
        tgt_positions=tuple(map(torch.from_numpy, positions)),
    )


def _pad(index: npt.NDArray[np.integer], lists: pa.ListArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the padded sequences, with room for EOS, and their lengths without EOS."""
    values, offsets = flatten(lists)
    starts = offsets[index]
    lengths = offsets[index + 1] - starts
    columns = np.arange(int(lengths.max()) + 1)
    inside = columns < lengths[:, None]
    ids = np.full(inside.shape, PAD, dtype=np.int32)
    ids[inside] = values[(starts[:, None] + columns)[inside]]
    return ids, lengths
