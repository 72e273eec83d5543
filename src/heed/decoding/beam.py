"""Beam search, batched, ending each sentence as early as can be proved safe."""

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
from heed.options import AtLeast1, check
from heed.symbols import BOS, EOS

NOTHING = Hypothesis(tokens=[], log_prob=-math.inf, score=-math.inf, finished=False)
"""For a sentence whose every continuation the model calls impossible, or not a number."""


class BeamSearch(Search):
    """The ``beam`` likeliest prefixes, extended together; the ``n_best`` best of those that reach EOS.

    Each step takes the ``beam`` likeliest extensions of a sentence's live prefixes. Those that end in EOS are finished
    and free their places for the next step; so ``beam=1`` is greedy search. Finished hypotheses are ranked by

        score(Y | X) = log p(Y | X) / ((5 + |Y|) / 6) ** length_penalty

    (Wu et al. 2016, eq. 14, without coverage), where |Y| counts EOS. ``length_penalty=0`` ranks by log p itself, which
    favours short translations; the larger it is, the longer the winners. Where the length limit falls before
    ``n_best`` are finished, the best unfinished ones follow behind them. Equal scores are ordered by length, then by
    place in the beam, then by token id: never by what else is in the batch.
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
        given = {"beam": beam, "length_penalty": length_penalty, "n_best": n_best}
        check(BeamSearch, given, where="search.")
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
        # N sentences are still searched, each with K places for live prefixes: one at first, then ``beam`` (fewer
        # only while the vocabulary has no more to offer). An empty place has log p = -inf.
        sentences = list(range(len(limits)))
        tokens = torch.full((len(limits), 1, 1), BOS, device=device)
        log_prob = torch.zeros(1, device=device)
        for length in count(1):
            N, K, _ = tokens.shape
            output, state = model.step(tokens[:, :, -1].flatten(), state)
            gain, token = next_tokens(output.logits[:, -1], self.beam)
            extended = log_prob[..., None] + gain.reshape(N, K, -1)
            log_prob, choice = kernels.stable_topk(extended.flatten(1), self.beam)
            place = choice // extended.shape[2]
            token = token.reshape(N, -1).gather(1, choice)
            tokens = torch.cat([tokens.take_along_dim(place[..., None], 1), token[..., None]], dim=2)

            cut = torch.tensor([limits[sentence] == length for sentence in sentences], device=device)
            done = ((token == EOS) | cut[:, None]) & (log_prob > -torch.inf)
            for (row, _), ids, value in zip(
                done.nonzero().tolist(), tokens[done, 1:].tolist(), log_prob[done].tolist(), strict=True
            ):
                found[sentences[row]].append(self._hypothesis(ids, value))
            log_prob = log_prob.masked_fill(done, -torch.inf)

            searched = []
            for row, (sentence, live) in enumerate(zip(sentences, log_prob.amax(1).tolist(), strict=True)):
                found[sentence].sort(key=lambda h: (not h.finished, -h.score))
                del found[sentence][self.n_best :]
                if live > -torch.inf and not self._settled(found[sentence], live, limits[sentence]):
                    searched.append(row)
            if not searched:
                return [n_best or [NOTHING] for n_best in found]
            kept = torch.tensor(searched, device=device)
            state = state.reorder((kept[:, None] * K + place[kept]).flatten())
            tokens, log_prob = tokens[kept], log_prob[kept]
            sentences = [sentences[row] for row in searched]
        raise AssertionError("unreachable: every sentence has a limit")

    def _settled(self, found: list[Hypothesis], live: float, limit: int) -> bool:
        """Whether no live prefix, the likeliest having log p = ``live``, can still change what was ``found``."""
        # Let a live prefix with log p = l be completed to a hypothesis of log p = l' and length n. Every further token
        # adds log p <= 0, so l' <= l <= 0. The penalty is positive and does not fall with length (length_penalty >= 0),
        # and n <= limit. Hence l' / penalty(n) <= l / penalty(n) <= l / penalty(limit), largest for the likeliest
        # prefix. Rounding keeps this order: next_tokens never gives log p > 0, and IEEE sums and quotients are
        # monotone. A mere draw comes too late: equal scores rank in the order of their finishing.
        return len(found) == self.n_best and self._score(live, limit) <= found[-1].score

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
