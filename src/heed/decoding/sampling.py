"""Sampling from the model's distribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.decoding.search import (
    Constraints,
    NBest,
    Nucleus,
    SampleCount,
    Search,
    decode_rows,
    for_search,
    token_log_probs,
)
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast0, AtLeast1, Positive, validated
from heed.symbols import BOS, EOS, PAD

UNITS = 2**52  # the integer that stands for probability 1; float64 is exact up to 2**53


@validated("search.")
@dataclass(kw_only=True, eq=False)
class SampleSearch(Search):
    """Sample ``n_best`` translations of every sentence, token by token.

    Scores are log p of the model, without temperature and truncation. Samples may be equal. They depend only on
    ``seed`` and the sentence's tokens. A larger ``n_best`` starts with the same samples.
    """

    temperature: Positive
    """Divides the logits. Below 1 the distribution is sharper, towards greedy search."""
    top_k: AtLeast1 | None
    """Sample from the k most probable tokens only (Fan et al. 2018); None: all."""
    top_p: Nucleus | None
    """Of these, sample from the smallest set of the most probable tokens with at least this fraction of their
    probability (nucleus sampling, Holtzman et al. 2020, §3.1); None: all."""
    seed: AtLeast0
    n_best: SampleCount
    """Samples per sentence."""

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], constraints: Constraints = None
    ) -> list[NBest]:
        model = for_search(model)
        # One row per sample. The samples of a sentence are consecutive.
        limits = [limit for limit in self.limits(model, src_mask, constraints) for _ in range(self.n_best)]
        rules = self.rules(constraints and [own for own in constraints for _ in range(self.n_best)], limits)
        uniform = self._uniform(src, src_mask, limits).to(_float64_device(src.device))
        state = model.start(model.encode(src, src_mask))
        sentence = torch.arange(len(src), device=src.device)[:, None].expand(-1, self.n_best).flatten()
        # The samples of a sentence end at different lengths, so each gets a copy of the source.
        state = state.reorder(sentence, sentences=sentence)
        drawn = decode_rows(model, state, limits, partial(self._draw, uniform), rules)
        draws = [drawn[first : first + self.n_best] for first in range(0, len(drawn), self.n_best)]
        return [sorted(n_best, key=lambda h: -h.score) for n_best in draws]

    def _uniform(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], limits: Sequence[int]
    ) -> Float[Tensor, "N T"]:
        """Return random numbers in [0, 1): ``limits[n]`` numbers for sample n."""
        uniform = torch.zeros(len(limits), max(limits), dtype=torch.float64)
        sources = src.tolist()
        lengths = src_mask.sum(1).tolist()
        for row, limit in enumerate(limits):
            sentence, draw = divmod(row, self.n_best)
            entropy = [self.seed, draw, *sources[sentence][: lengths[sentence]]]
            uniform[row, :limit] = torch.from_numpy(np.random.default_rng(entropy).random(limit))
        return uniform

    def _draw(
        self, uniform: Float[Tensor, "N T"], logits: Float[Tensor, "R V"], rows: Int[Tensor, " R"], length: int
    ) -> tuple[Float[Tensor, " R"], Int[Tensor, " R"]]:
        """Sample by inverting the cumulative distribution over token ids.

        Tokens are not sorted by probability, because rounding could swap two almost equal probabilities.
        """
        probs = self.probabilities(logits)
        total = probs.sum(1, keepdim=True)
        # Use integers, because a cumulative sum of floats is not deterministic on CUDA.
        cumulative = (probs / total * UNITS).long().cumsum(1)
        below = uniform[rows.to(uniform.device), length - 1] * cumulative[:, -1]
        token = (cumulative <= below[:, None]).sum(1)
        # End the sentence if all probabilities are 0 or NaN.
        token = torch.where(total[:, 0] > 0, token, EOS).to(logits.device)
        return token_log_probs(logits).gather(1, token[:, None]).squeeze(1), token

    def probabilities(self, logits: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
        """Return the truncated distribution of the next token in float64, not normalised."""
        logits = logits.to(_float64_device(logits.device), torch.float64, copy=True)
        logits[:, PAD] = logits[:, BOS] = -torch.inf
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


def _float64_device(device: torch.device) -> torch.device:
    """Return the device itself, or the CPU if it has no float64."""
    return torch.device("cpu") if device.type == "mps" else device
