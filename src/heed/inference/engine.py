"""Engines, which search for hypotheses of token ids; log-probabilities and attention maps of pairs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heed.decoding import NBest, Search
from heed.decoding.search import Constraints, for_search
from heed.errors import HeedError
from heed.kernels import WeightPacker, prepared_linear
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD

Map = Float[np.ndarray, "_ _ _ _"] | None
"""The attention weights of all layers and heads: "L H Q K"; None if the model has no such attention."""
PairMaps = tuple[Map, Map, Map]


class Engine(ABC):
    """Searches for translations of token ids."""

    @property
    def device(self) -> torch.device:
        """The device that the engine computes on."""
        return torch.device("cpu")

    @property
    def model(self) -> Seq2Seq:
        """heed's own model, for attention maps and scores; raise a HeedError if the engine only searches."""
        raise HeedError(f"{type(self).__name__} has no attention maps and scores no given translations.")

    has_constraints = True

    def check(self, search: Search, *, constrained: bool = False) -> None:  # noqa: B027  # all is accepted
        """Raise a HeedError unless the engine has this kind of search, and constraints if it is ``constrained``."""

    @abstractmethod
    def search(self, sources: Sequence[Sequence[int]], search: Search, constraints: Constraints = None) -> list[NBest]:
        """Return the hypotheses of each source of a batch, best first. A source is at least one id, without EOS."""

    def ready(self) -> AbstractContextManager["Engine"]:
        """Return a context manager for an engine that may `search` while the weights do not change."""
        return nullcontext(self)

    @contextmanager
    def inference_mode(self) -> Iterator[Seq2Seq]:
        """Yield the model in eval mode, without gradients and autocast; then restore its mode."""
        model = self.model
        training = model.training
        model.eval()
        try:
            with torch.inference_mode(), torch.autocast(model.device.type, enabled=False):
                yield model
        finally:
            model.train(training)


class TorchEngine(Engine):
    """heed's own model and searches.

    Args:
        packed: copy the decoder's weights into the fastest layout for this CPU (`heed.kernels.linear`).
    """

    def __init__(self, model: Seq2Seq, *, packed: bool = False) -> None:
        self._model = model
        self._prepare = WeightPacker().prepared_linear if packed else prepared_linear

    @property
    def model(self) -> Seq2Seq:
        return self._model

    @property
    def device(self) -> torch.device:
        return self._model.device

    def search(self, sources: Sequence[Sequence[int]], search: Search, constraints: Constraints = None) -> list[NBest]:
        src, src_mask = pad([[*ids, EOS] for ids in sources], self.model.device)
        return search(self.model, src, src_mask, constraints)

    @contextmanager
    def ready(self) -> Iterator["TorchEngine"]:
        with self.inference_mode() as model:
            yield TorchEngine(for_search(model, self._prepare))


def log_probs(model: Seq2Seq, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]) -> list[float]:
    """Return log p(target | source) in nats for each pair of a batch. Sources and targets end with EOS."""
    src, src_mask = pad(src_ids, model.device)
    tgt_in, _ = pad([[BOS, *ids[:-1]] for ids in tgt_ids], model.device)
    tgt_out, tgt_mask = pad(tgt_ids, model.device)
    logits = model(src, src_mask, tgt_in)
    gold = logits.gather(2, tgt_out[..., None]).squeeze(2)
    return (gold - logits.logsumexp(2)).masked_fill(~tgt_mask, 0.0).sum(1).tolist()


def attention_maps(model: Seq2Seq, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]) -> list[PairMaps]:
    """Return the cross, encoder and decoder self-attention of each pair, without padding. Arguments as `log_probs`."""
    src, src_mask = pad(src_ids, model.device)
    tgt_in, _ = pad([[BOS, *ids[:-1]] for ids in tgt_ids], model.device)
    maps = model.decode(tgt_in, model.encode(src, src_mask, maps=True), maps=True).attention
    assert maps is not None
    return [
        (_unpad(maps.cross, row, T, S), _unpad(maps.encoder_self, row, S, S), _unpad(maps.decoder_self, row, T, T))
        for row, (S, T) in enumerate(zip(map(len, src_ids), map(len, tgt_ids), strict=True))
    ]


def _unpad(maps: Float[Tensor, "L H B Q K"] | None, row: int, queries: int, keys: int) -> Map:
    """Copy one pair's maps without padding, so that the batch is freed."""
    return None if maps is None else maps[:, :, row, :queries, :keys].float().cpu().numpy().copy()


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of indices into ``lengths``, longest first, so that each batch has similar lengths.

    A batch has at most ``batch_tokens`` padded tokens (rows × longest length). A longer sentence is a batch by itself.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        size = max(1, batch_tokens // lengths[order[0]])
        yield order[:size]
        order = order[size:]


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return token ids padded on the right to the longest row, and the mask: True for tokens, False for padding."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    mask = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
    return ids.to(device), mask.to(device)
