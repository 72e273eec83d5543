"""Sampling from the model's distribution."""

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
    decode_rows,
)
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast0, AtLeast1, Positive, validated
from heed.symbols import BOS, EOS, PAD


@validated("search.")
class SampleSearch(Search):
    """Sample ``n_best`` translations of every sentence, token by token.

    Scores are log p of the model, without temperature and truncation. Samples may be equal. They depend on ``seed`` and
    the sentence's tokens only: not on the batch, and the first samples of a larger ``n_best`` are the same.

    Args:
        temperature: divides the logits. Below 1 the distribution is sharper, towards greedy search.
        top_k: sample from the k most probable tokens only (Fan et al. 2018); None: all.
        top_p: of these, sample from the smallest set of the most probable tokens with at least this fraction of their
            probability (nucleus sampling, Holtzman et al. 2020, §3.1); None: all.
        n_best: samples per sentence.
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
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = seed
        self.n_best = n_best

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        # One row per sample; those of a sentence are consecutive.
        limits = [limit for limit in self.limits(model, src_mask) for _ in range(self.n_best)]
        uniform = torch.zeros(len(limits), max(limits), dtype=torch.float64)
        for row, limit in enumerate(limits):
            sentence, draw = divmod(row, self.n_best)
            entropy = [self.seed, draw, *src[sentence][src_mask[sentence]].tolist()]
            uniform[row, :limit] = torch.from_numpy(np.random.default_rng(entropy).random(limit))
        state = model.start(model.encode(src, src_mask))
        state = state.reorder(torch.arange(len(src), device=src.device).repeat_interleave(self.n_best))
        drawn = decode_rows(model, state, limits, partial(self._draw, uniform))
        draws = [drawn[first : first + self.n_best] for first in range(0, len(drawn), self.n_best)]
        return [sorted(n_best, key=lambda h: -h.score) for n_best in draws]

    def _draw(
        self, uniform: Float[Tensor, "N T"], logits: Float[Tensor, "R V"], rows: Int[Tensor, " R"], length: int
    ) -> tuple[Float[Tensor, " R"], Int[Tensor, " R"]]:
        """Sample by inversion of the cumulative distribution over tokens in the order of their ids.

        In an order by probability, rounding could exchange two tokens with almost equal probabilities.
        """
        probs = self.probabilities(logits).cumsum(1)
        total = probs[:, -1]
        token = (probs <= (uniform[rows.cpu(), length - 1] * total)[:, None]).sum(1)
        # Probabilities of 0 or NaN only: end the sentence.
        token = torch.where(total > 0, token, EOS).to(logits.device)
        if logits.dtype != torch.float64:
            logits = logits.float()
        most_probable = logits.argmax(1, keepdim=True)
        return (logits.gather(1, token[:, None]) - kernels.log_sum_exp(logits, most_probable)).squeeze(1), token

    def probabilities(self, logits: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
        """Return the truncated distribution of the next token, not normalised.

        In float64 and on the CPU: a cumulative sum is not deterministic on CUDA, and MPS has no float64.
        """
        logits = logits.cpu().double().index_fill(1, torch.tensor([PAD, BOS]), -torch.inf)
        probs = ((logits - logits.amax(1, keepdim=True)) / self.temperature).softmax(1)
        if self.top_k is None and self.top_p is None:
            return probs
        most_probable, tokens = (
            probs.sort(dim=1, descending=True, stable=True)
            if self.top_k is None
            else kernels.stable_topk(probs, self.top_k)
        )
        if self.top_p is not None:
            cumulative_before = most_probable.cumsum(1) - most_probable
            most_probable = most_probable * (cumulative_before < self.top_p * most_probable.sum(1, keepdim=True))
        return torch.zeros_like(probs).scatter(1, tokens, most_probable)
