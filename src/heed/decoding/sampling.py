"""Sampling: translations drawn as the model's probabilities say."""

from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.decoding.search import (
    Draws,
    Hypothesis,
    LengthExtra,
    LengthFactor,
    Nucleus,
    Search,
    write,
)
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast0, AtLeast1, Positive, check
from heed.symbols import BOS, EOS, PAD


class SampleSearch(Search):
    """``n_best`` translations of every sentence, drawn token by token: Y_t ~ g(h_t, c_t).

    g is the softmax of the model's logits over ``temperature`` (below 1 sharpens it, towards greedy search), PAD and
    BOS left out; of that the ``top_k`` likeliest tokens (Fan et al. 2018; None: all); of these the smallest set
    of the likeliest that holds the share ``top_p`` of them (the nucleus, Holtzman et al. 2020, §3.1; None: all).
    Scores are log p, the model's own and not that of the draw. Draws may be equal.

    The randomness of a sentence comes from ``seed`` and its own tokens: with the same seed it gets the same draws
    wherever it stands and whatever else is translated, and the first draw is among those of a larger ``n_best``.
    """

    def __init__(
        self,
        *,
        temperature: Positive,
        top_k: AtLeast1 | None,
        top_p: Nucleus | None,
        seed: AtLeast0,
        n_best: Draws,
        max_length_factor: LengthFactor,
        max_length_extra: LengthExtra,
    ) -> None:
        super().__init__(max_length_factor=max_length_factor, max_length_extra=max_length_extra)
        given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "n_best": n_best}
        check(SampleSearch, given, where="search.")
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = seed
        self.n_best = n_best

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        # One row per draw, a sentence's draws one after the other.
        limits = [limit for limit in self.limits(model, src_mask) for _ in range(self.n_best)]
        uniform = torch.zeros(len(limits), max(limits), dtype=torch.float64)
        for row, limit in enumerate(limits):
            sentence, draw = divmod(row, self.n_best)
            entropy = [self.seed, draw, *src[sentence][src_mask[sentence]].tolist()]
            uniform[row, :limit] = torch.from_numpy(np.random.default_rng(entropy).random(limit))
        state = model.start(model.encode(src, src_mask))
        state = state.reorder(torch.arange(len(src), device=src.device).repeat_interleave(self.n_best))
        drawn = write(model, state, limits, partial(self._draw, uniform))
        draws = [drawn[first : first + self.n_best] for first in range(0, len(drawn), self.n_best)]
        return [sorted(n_best, key=lambda h: -h.score) for n_best in draws]

    def _draw(
        self, uniform: Float[Tensor, "N T"], logits: Float[Tensor, "R V"], rows: Int[Tensor, " R"], length: int
    ) -> tuple[Float[Tensor, " R"], Int[Tensor, " R"]]:
        """The token in whose share of [0, 1) the row's number for this position falls; shares lie in order of ids.

        In that order, other than by size, two tokens of almost one probability do not change places by rounding.
        """
        shares = self.shares(logits).cumsum(1)
        whole = shares[:, -1]
        token = (shares <= (uniform[rows.cpu(), length - 1] * whole)[:, None]).sum(1)
        # A model that says nothing, or nonsense (NaN), ends the sentence.
        token = torch.where(whole > 0, token, EOS).to(logits.device)
        if logits.dtype != torch.float64:
            logits = logits.float()
        likeliest = logits.argmax(1, keepdim=True)
        return (logits.gather(1, token[:, None]) - kernels.log_sum_exp(logits, likeliest)).squeeze(1), token

    def shares(self, logits: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
        """What tokens are drawn in proportion to, 0 for those cut off.

        In float64 and on the CPU: a cumulative sum is not deterministic on CUDA, and MPS has no float64.
        """
        logits = logits.cpu().double().index_fill(1, torch.tensor([PAD, BOS]), -torch.inf)
        shares = ((logits - logits.amax(1, keepdim=True)) / self.temperature).softmax(1)
        if self.top_k is None and self.top_p is None:
            return shares
        likeliest, tokens = (
            shares.sort(dim=1, descending=True, stable=True)
            if self.top_k is None
            else kernels.stable_topk(shares, self.top_k)
        )
        if self.top_p is not None:
            likelier = likeliest.cumsum(1) - likeliest
            likeliest = likeliest * (likelier < self.top_p * likeliest.sum(1, keepdim=True))
        return torch.zeros_like(shares).scatter(1, tokens, likeliest)
