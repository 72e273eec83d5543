"""Batched beam search with exact early stopping."""

import math
from itertools import count

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed import kernels
from heed.decoding.search import (
    BeamSize,
    Hypothesis,
    LengthExtra,
    LengthFactor,
    LengthPenalty,
    Search,
    next_tokens,
)
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast1, validated
from heed.symbols import BOS, EOS

EMPTY = Hypothesis(tokens=[], log_prob=-math.inf, score=-math.inf, finished=False)
"""Returned where every continuation has probability 0 or NaN."""


@validated("search.")
class BeamSearch(Search):
    """Keep the ``beam`` most probable prefixes of each sentence; return the ``n_best`` finished hypotheses.

    Each step keeps the ``beam`` most probable extensions of a sentence's active prefixes. Those that end in EOS are
    finished and leave the beam. With ``beam=1`` this is greedy search. Finished hypotheses are ranked by

        score(Y | X) = log p(Y | X) / ((5 + |Y|) / 6) ** length_penalty

    (Wu et al. 2016, eq. 14, without coverage), where |Y| includes EOS. ``length_penalty=0`` ranks by log p, which
    favours short translations; larger values favour longer ones. If fewer than ``n_best`` are finished at the length
    limit, the best unfinished ones follow. Equal scores are ordered by length, then by position in the beam, then by
    token id, so the result does not depend on the batch.
    """

    def __init__(
        self,
        *,
        beam: BeamSize,
        length_penalty: LengthPenalty,
        n_best: AtLeast1,
        max_length_factor: LengthFactor,
        max_length_extra: LengthExtra,
    ) -> None:
        super().__init__(max_length_factor=max_length_factor, max_length_extra=max_length_extra)
        if n_best > beam:
            raise HeedError(f"search.n_best={n_best} must be at most search.beam={beam}.")
        self.beam = beam
        self.length_penalty = length_penalty
        self.n_best = n_best

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        device = src.device
        limits = self.limits(model, src_mask)
        found: list[list[Hypothesis]] = [[] for _ in limits]
        state = model.start(model.encode(src, src_mask))
        # N sentences are not done, each with K prefixes: one at first, then ``beam`` (or fewer, if the vocabulary is
        # smaller). A finished prefix keeps its place with log p = -inf.
        sentences = list(range(len(limits)))
        tokens = torch.full((len(limits), 1, 1), BOS, device=device)
        log_prob = torch.zeros(1, device=device)
        for length in count(1):
            N, K, _ = tokens.shape
            output, state = model.step(tokens[:, :, -1].flatten(), state)
            token_log_prob, token = next_tokens(output.logits[:, -1], self.beam)
            extended = log_prob[..., None] + token_log_prob.reshape(N, K, -1)
            log_prob, choice = kernels.stable_topk(extended.flatten(1), self.beam)
            parent = choice // extended.shape[2]
            token = token.reshape(N, -1).gather(1, choice)
            tokens = torch.cat([tokens.take_along_dim(parent[..., None], 1), token[..., None]], dim=2)

            cut = torch.tensor([limits[sentence] == length for sentence in sentences], device=device)
            done = ((token == EOS) | cut[:, None]) & (log_prob > -torch.inf)
            for (row, _), ids, value in zip(
                done.nonzero().tolist(), tokens[done, 1:].tolist(), log_prob[done].tolist(), strict=True
            ):
                found[sentences[row]].append(self._hypothesis(ids, value))
            log_prob = log_prob.masked_fill(done, -torch.inf)

            active = []
            for row, (sentence, best) in enumerate(zip(sentences, log_prob.amax(1).tolist(), strict=True)):
                found[sentence].sort(key=lambda h: (not h.finished, -h.score))
                del found[sentence][self.n_best :]
                if best > -torch.inf and not self._is_decided(found[sentence], best, limits[sentence]):
                    active.append(row)
            if not active:
                return [n_best or [EMPTY] for n_best in found]
            kept = torch.tensor(active, device=device)
            state = state.reorder((kept[:, None] * K + parent[kept]).flatten())
            tokens, log_prob = tokens[kept], log_prob[kept]
            sentences = [sentences[row] for row in active]
        raise AssertionError("unreachable: every sentence has a limit")

    def _is_decided(self, found: list[Hypothesis], best: float, limit: int) -> bool:
        """Return whether no active prefix can change ``found`` any more. ``best`` is their largest log p."""
        # Let a prefix with log p = l be completed to a hypothesis with log p = l' and length n. Every further token
        # adds log p <= 0, so l' <= l <= 0. The penalty is positive and does not decrease with length, and n <= limit.
        # Hence l' / penalty(n) <= l / penalty(n) <= l / penalty(limit), which is largest for the best prefix. This
        # holds after rounding: next_tokens never returns log p > 0, and IEEE sums and quotients are monotone. A later
        # hypothesis with an equal score ranks lower.
        return len(found) == self.n_best and self._score(best, limit) <= found[-1].score

    def _score(self, log_prob: float, length: int) -> float:
        return log_prob / float(((5 + length) / 6) ** self.length_penalty)

    def _hypothesis(self, ids: list[int], log_prob: float) -> Hypothesis:
        finished = ids[-1] == EOS
        return Hypothesis(
            tokens=ids[:-1] if finished else ids,
            log_prob=log_prob,
            score=self._score(log_prob, len(ids)),
            finished=finished,
        )
