"""Minimum Bayes risk: not the likeliest translation, but the one that is most like all that are likely."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.decoding.beam import BeamSearch
from heed.decoding.sampling import SampleSearch
from heed.decoding.search import Hypothesis, LengthExtra, LengthFactor, LengthPenalty, Nucleus, Search
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast0, AtLeast1, Positive, check

Utility = Callable[[str, str], float]
"""How good a translation (first) is where another (second) is right; 0 to 100."""


class MBRSearch(Search):
    """The candidate with the largest expected utility,

        Y* = argmax_{Y ∈ C} Σ_{Y' ∈ E} w(Y') u(Y, Y').

    The candidates C are the ``beam`` best of a beam search and ``samples`` draws from the model. The evidence E is the
    draws, each of weight 1/``samples`` (Eikema & Aziz 2020: an unbiased estimate, where temperature is 1 and nothing is
    cut off); where there are none, the beam's hypotheses, weighted by p(Y | X) as renormalised over them (Kumar & Byrne
    2004). The utility u is sacreBLEU's chrF or its BLEU of sentences (tokenizer 13a, effective order), of text.

    Scores are expected utilities, best first; candidates that read alike are one. Of equally good ones the beam's come
    first, in its order. It takes the time of both searches and candidates × evidence utilities, of which sacreBLEU
    computes some thousand a second.

    Args:
        beam, length_penalty: as of `BeamSearch`; ``beam=0``: no candidates from there.
        samples: draws a sentence; 0: none.
        temperature, top_k, top_p, seed: as of `SampleSearch`.
        n_best: candidates returned a sentence, at most: equal ones are counted once.
    """

    def __init__(
        self,
        *,
        utility: Literal["chrf", "bleu"],
        beam: AtLeast0,
        length_penalty: LengthPenalty,
        samples: AtLeast0,
        temperature: Positive,
        top_k: AtLeast1 | None,
        top_p: Nucleus | None,
        seed: AtLeast0,
        n_best: AtLeast1,
        max_length_factor: LengthFactor,
        max_length_extra: LengthExtra,
    ) -> None:
        super().__init__(max_length_factor=max_length_factor, max_length_extra=max_length_extra)
        given = {
            "utility": utility,
            "beam": beam,
            "length_penalty": length_penalty,
            "samples": samples,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "n_best": n_best,
        }
        check(MBRSearch, given, where="search.")
        if beam + samples < 2:
            raise HeedError(
                f"search.beam={beam} and search.samples={samples} leave no choice: together they must be at least 2."
            )
        if n_best > beam + samples:
            raise HeedError(f"search.n_best={n_best} must be at most search.beam + search.samples = {beam + samples}.")
        limit: dict[str, Any] = {"max_length_factor": max_length_factor, "max_length_extra": max_length_extra}
        self.utility = utility
        self.n_best = n_best
        self.beam = BeamSearch(beam=beam, length_penalty=length_penalty, n_best=beam, **limit) if beam else None
        self.sampler = (
            SampleSearch(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, n_best=samples, **limit)
            if samples
            else None
        )
        self.decode: Callable[[Sequence[Sequence[int]]], list[str]] | None = None

    def with_text(self, decode: Callable[[Sequence[Sequence[int]]], list[str]]) -> "MBRSearch":
        reading = copy(self)
        reading.decode = decode
        return reading

    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        none: list[list[Hypothesis]] = [[] for _ in src]
        beams = self.beam(model, src, src_mask) if self.beam else none
        draws = self.sampler(model, src, src_mask) if self.sampler else none
        utility = UTILITIES[self.utility]()
        return [self._choose(beam, drawn, utility) for beam, drawn in zip(beams, draws, strict=True)]

    def _choose(self, beam: list[Hypothesis], draws: list[Hypothesis], utility: Utility) -> list[Hypothesis]:
        assert self.decode is not None, "with_text comes first"
        candidates: dict[str, Hypothesis] = {}
        for hypothesis, text in zip([*beam, *draws], self.decode([h.tokens for h in [*beam, *draws]]), strict=True):
            candidates.setdefault(text, hypothesis)
        evidence: dict[str, float] = {}
        believed = draws or beam
        weights = [1 / len(draws) for _ in draws] or _posterior(beam)
        for text, weight in zip(self.decode([h.tokens for h in believed]), weights, strict=True):
            evidence[text] = evidence.get(text, 0.0) + weight
        expected = {
            text: math.fsum(weight * utility(text, other) for other, weight in evidence.items()) for text in candidates
        }
        best = sorted(candidates, key=lambda text: -expected[text])
        return [replace(candidates[text], score=expected[text]) for text in best[: self.n_best]]


def _posterior(hypotheses: Sequence[Hypothesis]) -> list[float]:
    """p(Y | X) of each, renormalised to sum to 1; equal shares where the model says nothing of any."""
    log_p = torch.tensor([hypothesis.log_prob for hypothesis in hypotheses], dtype=torch.float64)
    if not torch.isfinite(log_p).any():
        return [1 / len(hypotheses) for _ in hypotheses]
    shares: list[float] = log_p.softmax(0).tolist()
    return shares


def _chrf() -> Utility:
    from sacrebleu.metrics import CHRF

    metric = CHRF()
    return lambda text, other: float(metric.sentence_score(text, [other]).score)


def _bleu() -> Utility:
    from sacrebleu.metrics import BLEU

    metric = BLEU(effective_order=True)
    return lambda text, other: float(metric.sentence_score(text, [other]).score)


UTILITIES: dict[str, Callable[[], Utility]] = {"chrf": _chrf, "bleu": _bleu}
