"""Minimum Bayes risk decoding: choose the candidate that is most similar to the other likely translations."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.decoding.beam import BeamSearch, LengthPenalty
from heed.decoding.sampling import SampleSearch
from heed.decoding.search import Constraints, Hypothesis, LengthExtra, LengthFactor, NBest, Nucleus, Search
from heed.errors import HeedError
from heed.evaluation.scores import spaceless_scripts, usual_tokenizer
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast0, AtLeast1, Positive, validated


@validated("search.")
class MBRSearch(Search):
    """Minimum Bayes risk decoding: the candidate with the largest expected utility,

        Y* = argmax_{Y ∈ C} Σ_{Y' ∈ E} w(Y') u(Y, Y').

    The candidates C are the hypotheses of a beam search and samples from the model. The pseudo-references E are the
    samples, each with weight w = 1/``samples`` (Eikema & Aziz 2020; an unbiased estimate with temperature 1 and without
    top-k or top-p). Without samples, E are the hypotheses of the beam, weighted by p(Y | X) normalised over them
    (Kumar & Byrne 2004). The utility u is sentence-level chrF or BLEU of the detokenised text, computed by sacreBLEU
    (BLEU with effective order and tokenizer 13a, or char for text without spaces).

    The score of a hypothesis is its expected utility. Candidates with the same text count once. Ties are resolved in
    favour of beam search, in beam order. The cost is both searches plus candidates × pseudo-references evaluations of
    the utility.

    conf/search/mbr.yaml explains the options. There are fewer than ``n_best`` hypotheses if candidates have the same
    text.

    Raises:
        HeedError: if an argument is out of range, or there are fewer than two candidates.
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
        no_repeat_ngram_size: AtLeast0 = 0,
    ) -> None:
        limits: dict[str, Any] = {
            "max_length_factor": max_length_factor,
            "max_length_extra": max_length_extra,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        super().__init__(**limits)
        if beam + samples < 2:
            raise HeedError(
                f"search.beam={beam} and search.samples={samples} give fewer than two candidates to choose from: "
                "their sum must be at least 2."
            )
        if n_best > beam + samples:
            raise HeedError(f"search.n_best={n_best} must be at most search.beam + search.samples = {beam + samples}.")
        self.utility = utility
        self.n_best = n_best
        self.beam = BeamSearch(beam=beam, length_penalty=length_penalty, n_best=beam, **limits) if beam else None
        self.sampler = (
            SampleSearch(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, n_best=samples, **limits)
            if samples
            else None
        )
        self.decode: Callable[[Sequence[Sequence[int]]], list[str]] | None = None

    def with_text(self, decode: Callable[[Sequence[Sequence[int]]], list[str]]) -> "MBRSearch":
        """Return a copy that detokenises hypotheses with ``decode``. Only such a copy can be called."""
        search = copy(self)
        search.decode = decode
        return search

    def with_all(self) -> "MBRSearch":
        search = copy(self)
        search.n_best = sum(each.n_best for each in (self.beam, self.sampler) if each)
        return search

    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], constraints: Constraints = None
    ) -> list[NBest]:
        none: list[NBest] = [[] for _ in src]
        beams = self.beam(model, src, src_mask, constraints) if self.beam else none
        samples = self.sampler(model, src, src_mask, constraints) if self.sampler else none
        return [self._choose(beam, sampled) for beam, sampled in zip(beams, samples, strict=True)]

    def _choose(self, beam: list[Hypothesis], samples: list[Hypothesis]) -> list[Hypothesis]:
        """Return the candidates of one sentence with the largest expected utilities, best first."""
        from sacrebleu.metrics import BLEU, CHRF

        assert self.decode is not None, "call with_text first"
        candidates: dict[str, Hypothesis] = {}
        both = [*beam, *samples]
        for hypothesis, text in zip(both, self.decode([h.tokens for h in both]), strict=True):
            candidates.setdefault(text, hypothesis)
        references = samples or beam
        weights = [1 / len(references)] * len(references)
        log_p = torch.tensor([hypothesis.log_prob for hypothesis in references], dtype=torch.float64)
        if not samples and torch.isfinite(log_p).any():
            weights = log_p.softmax(0).tolist()
        reference_weights: dict[str, float] = {}  # score equal texts once, with the sum of their weights
        for text, weight in zip(self.decode([h.tokens for h in references]), weights, strict=True):
            reference_weights[text] = reference_weights.get(text, 0.0) + weight
        tokenizer = usual_tokenizer("", spaceless_scripts(candidates))
        metric = {"chrf": CHRF, "bleu": partial(BLEU, tokenize=tokenizer, effective_order=True)}[str(self.utility)]()

        def expected_utility(text: str) -> float:
            return math.fsum(
                weight * float(metric.sentence_score(text, [reference]).score)
                for reference, weight in reference_weights.items()
            )

        expected = {text: expected_utility(text) for text in candidates}
        best = sorted(candidates, key=lambda text: -expected[text])
        return [replace(candidates[text], score=expected[text]) for text in best[: self.n_best]]
