"""Batched beam search with exact early stopping."""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Interval
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.decoding.constraints import RowConstraints
from heed.decoding.search import (
    Constraints,
    History,
    Hypothesis,
    NBest,
    Search,
    differences,
    for_search,
    steps_between_stop_checks,
    token_log_probs,
)
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast1, validated
from heed.symbols import BOS, EOS, PAD

LengthPenalty = Annotated[float, Interval(ge=0, le=10)]

EMPTY = Hypothesis(tokens=[], log_prob=-math.inf, score=-math.inf, finished=False)
"""The result if every continuation has probability 0 or NaN."""


@validated("search.")
@dataclass(kw_only=True, eq=False)
class BeamSearch(Search):
    """Keep the ``beam`` most probable prefixes of each sentence; return the ``n_best`` finished hypotheses.

    Each step keeps the ``beam`` most probable extensions of a sentence's active prefixes. Those that end in EOS are
    finished and leave the beam. With ``beam=1`` this is greedy search. Finished hypotheses are ranked by

        score(Y | X) = log p(Y | X) / ((5 + |Y|) / 6) ** length_penalty

    (Wu et al. 2016, eq. 14, without coverage), where |Y| includes EOS. ``length_penalty=0`` ranks by log p, which
    favours short translations; larger values favour longer ones. If fewer than ``n_best`` are finished at the length
    limit, the best unfinished ones follow.

    Ties: extensions with equal log p are ordered by their prefix's position in the beam, then by token id. Hypotheses
    with equal scores are ordered by length, then by position in the beam. So the result does not depend on the batch.
    """

    beam: Annotated[int, Interval(ge=1, le=1_000)]
    length_penalty: LengthPenalty
    n_best: AtLeast1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam:
            raise HeedError(f"search.n_best={self.n_best} must be at most search.beam={self.beam}.")

    def with_all(self) -> "BeamSearch":
        return replace(self, n_best=self.beam)

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], constraints: Constraints = None
    ) -> list[NBest]:
        model, device = for_search(model), src.device
        limits = self.limits(model, src_mask, constraints)
        rules = self.rules(constraints, limits)
        penalties = self._penalties(max(limits), device)
        history = History(len(limits), device)
        state = model.start(model.encode(src, src_mask))
        # There are N unfinished sentences with K prefixes each: one at first, then ``beam``.
        limit = torch.tensor(limits, device=device)
        beams = Beams(
            token=torch.full_like(limit, BOS)[:, None],
            log_prob=torch.zeros(len(limits), 1, device=device),
            finished_scores=penalties.new_full((len(limits), self.n_best), -torch.inf, device=device),
            limit=limit,
            penalties=penalties.to(device),
        )
        for length in range(1, max(limits) + 1):
            output, state = model.step(beams.token.flatten(), state)
            N, K = beams.token.shape
            beams, parent = beams.extend(output.logits[:, -1], self.beam, length, rules)
            history.append(beams.token, parent, beams.log_prob)
            rows = torch.arange(0, N * K, K, device=device)[:, None] + parent
            if rules is not None:
                rules = rules.after(rows.flatten().tolist(), beams.token.flatten().tolist())
            beams = beams.finish(length)
            kept = None
            if length % steps_between_stop_checks(device) == 0 or length == max(limits):
                is_done = self._can_stop(beams).tolist()
                if all(is_done):
                    break
                if any(is_done):
                    kept = torch.tensor([row for row, done in enumerate(is_done) if not done], device=device)
                    beams, rows = beams.keep(kept), rows[kept]
                    history.keep(kept)
                    rules = rules and rules.keep(
                        (kept[:, None] * self.beam + torch.arange(self.beam, device=device)).flatten().tolist()
                    )
            state = state.reorder(rows.flatten(), sentences=kept)
        return self._hypotheses(history, limits, penalties)

    def _can_stop(self, beams: "Beams") -> Bool[Tensor, " N"]:
        """Return whether each sentence is done: no active prefix can become one of its ``n_best`` hypotheses."""
        # Let a prefix with log p = l be completed to a hypothesis with log p = l' and length n. Every further token
        # adds log p <= 0, so l' <= l <= 0. The penalty is positive and does not decrease with length, and n <= limit.
        # Hence l' / penalty(n) <= l / penalty(n) <= l / penalty(limit), which is largest for the best prefix. This
        # holds after rounding: token_log_probs are never above 0, and IEEE sums and quotients are monotone. A later
        # hypothesis with an equal score ranks lower.
        best = beams.log_prob.amax(1)
        return (best == -torch.inf) | (best / beams.penalties[beams.limit] <= beams.finished_scores[:, -1])

    def _penalties(self, longest: int, device: torch.device) -> Float[Tensor, " T"]:
        """Return the denominator of the score for each length from 0 on."""
        # MPS has no float64. Early stopping needs the same rounding on the device and in the ranking.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        return torch.tensor([((5 + n) / 6) ** self.length_penalty for n in range(longest + 1)], dtype=dtype)

    def _hypotheses(self, history: History, limits: list[int], penalties: Float[Tensor, " T"]) -> list[NBest]:
        """Rank all hypotheses of each sentence, and trace the best ones back to their first tokens."""
        token, parent, log_prob = (part.cpu() for part in history.tensors())
        T, K = token.shape[1:]
        score = log_prob.to(penalties.dtype) / penalties[1 : T + 1, None]
        found = []
        for tokens, parents, log_probs, scores, limit in zip(
            *(part.tolist() for part in (token, parent, log_prob, score)), limits, strict=True
        ):
            ends = [
                (t, k)
                for t in range(min(T, limit))
                for k in range(K)
                if log_probs[t][k] > -math.inf and (tokens[t][k] == EOS or (t == limit - 1 and tokens[t][k] != PAD))
            ]
            # Finished hypotheses first, then by score, length and place in the beam.
            ends.sort(key=lambda end: (tokens[end[0]][end[1]] != EOS, -scores[end[0]][end[1]]))
            hypotheses = []
            for t, k in ends[: self.n_best]:
                places, finished = _trace(parents, t, k), tokens[t][k] == EOS
                prefix = [tokens[step][place] for step, place in enumerate(places[:t] if finished else places)]
                steps = differences([log_probs[step][place] for step, place in enumerate(places)])
                hypotheses.append(Hypothesis(prefix, log_probs[t][k], scores[t][k], finished, steps))
            found.append(hypotheses or [EMPTY])
        return found


def _trace(parents: list[list[int]], step: int, place: int) -> list[int]:
    """Return where in the beam the prefix at a place after a step was, after each step up to this one."""
    places = [place]
    for t in range(step, 0, -1):
        places.append(parents[t][places[-1]])
    return places[::-1]


@dataclass(frozen=True)
class Beams:
    """The prefixes of N sentences, K of each. A finished prefix stays in the beam with log p = -inf."""

    token: Int[Tensor, "N K"]  # the last token of each prefix
    log_prob: Float[Tensor, "N K"]
    finished_scores: Float[Tensor, "N n"]  # of the ``n_best`` best finished ones, descending, padded with -inf
    limit: Int[Tensor, " N"]
    penalties: Float[Tensor, " T"]  # the denominator of the score for each length

    def extend(
        self, logits: Float[Tensor, "R V"], beam: int, length: int = 1, rules: RowConstraints | None = None
    ) -> tuple["Beams", Int[Tensor, "N {beam}"]]:
        """Return the ``beam`` most probable extensions of each sentence's prefixes, and the index of each one's prefix.

        Args:
            logits: of the next token, one row per prefix.
            length: of the prefixes, with the next token.
            rules: the constraints of each prefix.
        """
        N, V = len(self.token), logits.shape[1]
        log_prob = token_log_probs(logits)
        if rules is not None:
            log_prob = rules.forbid(log_prob, length)
        log_prob = log_prob.add_(self.log_prob.view(-1, 1)).view(N, -1)
        if (missing := beam - log_prob.shape[1]) > 0:  # the vocabulary is smaller than the beam
            log_prob = F.pad(log_prob, (0, missing), value=-torch.inf)
        extensions, (log_prob, choice) = log_prob, kernels.stable_topk(log_prob, beam)
        if rules is not None and rules.is_shared:
            choice = rules.share_beam(extensions, choice, V)
            log_prob = extensions.gather(1, choice)
        parent = (choice // V).clamp_max(self.token.shape[1] - 1)
        return replace(self, token=choice % V, log_prob=log_prob), parent

    def finish(self, length: int) -> "Beams":
        """Score the prefixes that end in EOS; deactivate them and those at the length limit."""
        ends = self.token == EOS
        score = torch.where(ends, self.log_prob, -torch.inf).to(self.penalties.dtype) / self.penalties[length]
        scores = torch.cat((self.finished_scores, score), 1).topk(self.finished_scores.shape[1]).values
        inactive = ends | (self.limit == length)[:, None]
        return replace(self, log_prob=self.log_prob.masked_fill(inactive, -torch.inf), finished_scores=scores)

    def keep(self, sentences: Int[Tensor, " N2"]) -> "Beams":
        """Return the beams of these sentences."""
        names = ("token", "log_prob", "finished_scores", "limit")
        return replace(self, **{name: getattr(self, name)[sentences] for name in names})
