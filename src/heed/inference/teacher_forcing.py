"""Log-probabilities and attention maps of given sentence pairs. Ids of sources and targets end with EOS."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from heed.inference.batching import pad
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS

Map = Float[np.ndarray, "_ _ _ _"] | None
"""The attention weights of all layers and heads: "L H Q K"; None if the model has no such attention."""
PairMaps = tuple[Map, Map, Map]


def log_probs(model: Seq2Seq, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]) -> list[float]:
    """Return log p(target | source) of each pair of a batch in nats."""
    src, src_mask = pad(src_ids, model.device)
    tgt_in, _ = pad([[BOS, *ids[:-1]] for ids in tgt_ids], model.device)
    tgt_out, tgt_mask = pad(tgt_ids, model.device)
    logits = model(src, src_mask, tgt_in)
    gold = logits.gather(2, tgt_out[..., None]).squeeze(2)
    totals: list[float] = (gold - logits.logsumexp(2)).masked_fill(~tgt_mask, 0.0).sum(1).tolist()
    return totals


def attention_maps(model: Seq2Seq, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]) -> list[PairMaps]:
    """Return the maps of each pair of a batch without padding: cross, encoder and decoder self-attention."""
    src, src_mask = pad(src_ids, model.device)
    tgt_in, _ = pad([[BOS, *ids[:-1]] for ids in tgt_ids], model.device)
    maps = model.decode(tgt_in, model.encode(src, src_mask, maps=True), maps=True).attention
    assert maps is not None
    return [
        (_unpad(maps.cross, row, T, S), _unpad(maps.encoder_self, row, S, S), _unpad(maps.decoder_self, row, T, T))
        for row, (S, T) in enumerate(zip(map(len, src_ids), map(len, tgt_ids), strict=True))
    ]


def _unpad(maps: Float[Tensor, "L H B Q K"] | None, row: int, queries: int, keys: int) -> Map:
    """Return a copy of one pair's maps without padding, which does not keep the batch in memory."""
    return None if maps is None else maps[:, :, row, :queries, :keys].float().cpu().numpy().copy()
