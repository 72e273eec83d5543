"""The attention maps of a batch of sentence pairs."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from heed.data.tokenizer import Tokenizer
from heed.inference.batching import pad
from heed.inference.outputs import Attended
from heed.models.seq2seq import AttentionMaps, Seq2Seq
from heed.symbols import BOS


def batch_maps(model: Seq2Seq, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]) -> AttentionMaps:
    """Return the attention maps of a batch of pairs, given with their ids, with padding."""
    src, src_mask = pad(src_ids, model.device)
    tgt_in, _ = pad([[BOS, *ids[:-1]] for ids in tgt_ids], model.device)
    memory = model.encode(src, src_mask, maps=True)
    maps = model.decode(tgt_in, memory, maps=True).attention
    assert maps is not None
    return maps


def attended_pair(
    maps: AttentionMaps, row: int, *, tokenizer: Tokenizer, pair: tuple[str, str], ids: tuple[list[int], list[int]]
) -> Attended:
    """Return one pair of a batch with its maps without padding.

    Args:
        row: the row of the pair in the batch.
        pair: source and target.
        ids: their ids.
    """
    src_ids, tgt_ids = ids
    S, T = len(src_ids), len(tgt_ids)
    return Attended(
        source=pair[0],
        target=pair[1],
        src_pieces=tokenizer.src_pieces(src_ids),
        tgt_pieces=tokenizer.tgt_pieces(tgt_ids),
        cross=_unpad(maps.cross, row, T, S),
        encoder_self=_unpad(maps.encoder_self, row, S, S),
        decoder_self=_unpad(maps.decoder_self, row, T, T),
    )


def _unpad(
    maps: Float[Tensor, "L H B Q K"] | None, row: int, queries: int, keys: int
) -> Float[np.ndarray, "L H Q2 K2"] | None:
    """Return a copy of one sentence's maps without padding, which does not keep the batch in memory."""
    return None if maps is None else maps[:, :, row, :queries, :keys].float().cpu().numpy().copy()
