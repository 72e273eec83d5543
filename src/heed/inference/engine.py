"""Engines: token ids → hypotheses. A `Translator` searches with heed's own model or with an export of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from heed.decoding import Hypothesis, Search
from heed.decoding.fused import for_search
from heed.inference.batching import pad
from heed.kernels import WeightPacker, prepared_linear
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS


class Engine(ABC):
    """Searches for translations of token ids."""

    @abstractmethod
    def check(self, search: Search) -> None:
        """Raise a HeedError unless the engine has this kind of search."""

    @abstractmethod
    def search(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        """Return the hypotheses of each source of a batch, best first.

        Args:
            sources: token ids without EOS, at least one each.
        """

    def ready(self) -> AbstractContextManager["Engine"]:
        """Return a context with an engine that may `search` as long as the weights do not change."""
        return nullcontext(self)


class TorchEngine(Engine):
    """heed's own model and searches.

    Args:
        packed: lay out copies of the decoder's weights as is faster on this CPU (`heed.kernels.packing`).
    """

    def __init__(self, model: Seq2Seq, *, packed: bool = False) -> None:
        self.model = model
        self.packed = packed
        self._packer = WeightPacker()

    def check(self, search: Search) -> None:
        """Accept every search."""

    def search(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        src, src_mask = pad([[*ids, EOS] for ids in sources], self.model.device)
        return search(self.model, src, src_mask)

    @contextmanager
    def ready(self) -> Iterator["TorchEngine"]:
        with self.inference_mode() as model:
            yield TorchEngine(for_search(model, self._packer.prepared_linear if self.packed else prepared_linear))

    @contextmanager
    def inference_mode(self) -> Iterator[Seq2Seq]:
        """Yield the model in eval mode, without gradients and autocast; then restore its mode."""
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode(), torch.autocast(self.model.device.type, enabled=False):
                yield self.model
        finally:
            self.model.train(training)
