"""The interface of searches, and what they share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated

import torch
from annotated_types import Interval
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.errors import HeedError
from heed.models.seq2seq import DecoderState, Seq2Seq
from heed.options import validated
from heed.symbols import BOS, EOS, PAD

# The upper bounds are far above useful values. They keep a typo from using all memory or time.
LengthFactor = Annotated[float, Interval(ge=0, le=100)]
LengthExtra = Annotated[int, Interval(ge=0, le=10_000)]
BeamSize = Annotated[int, Interval(ge=1, le=1_000)]
Draws = Annotated[int, Interval(ge=1, le=10_000)]
LengthPenalty = Annotated[float, Interval(ge=0, le=10)]
Nucleus = Annotated[float, Interval(gt=0, le=1)]


@dataclass(frozen=True)
class Hypothesis:
    """A translation as token ids, with its scores."""

    tokens: list[int]
    """Without BOS and EOS."""
    log_prob: float
    """The sum of log p over the tokens, and EOS if finished, in nats."""
    score: float
    """The value by which the search ranks."""
    finished: bool
    """Whether it ends with EOS; otherwise it was cut at the length limit."""


@validated("search.")
class Search(ABC):
    """A search for translations of a batch of source sentences.

    The result for a sentence does not depend on the rest of the batch. Its length limit is ``max_length_factor`` ×
    source length + ``max_length_extra`` tokens, at least 1, with EOS counted on both sides.
    """

    def __init__(self, *, max_length_factor: LengthFactor, max_length_extra: LengthExtra) -> None:
        if max_length_factor + max_length_extra == 0:
            raise HeedError(
                f"search.max_length_factor={max_length_factor} and search.max_length_extra={max_length_extra} "
                "allow no tokens: one of them must be > 0."
            )
        self.max_length_factor = max_length_factor
        self.max_length_extra = max_length_extra

    @abstractmethod
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, best first, at least one."""

    def with_text(self, decode: Callable[[Sequence[Sequence[int]]], list[str]]) -> "Search":
        """Return this search with a function from token ids to text, for searches that compare texts (`MBRSearch`)."""
        return self

    def limits(self, model: Seq2Seq, src_mask: Bool[Tensor, "B S"]) -> list[int]:
        """Return the maximal number of target tokens of each sentence, EOS included."""
        lengths: list[int] = src_mask.sum(dim=1).tolist()
        maximum = math.inf if model.max_target_length is None else model.max_target_length
        return [
            int(min(maximum, max(1, self.max_length_factor * length + self.max_length_extra))) for length in lengths
        ]


def decode_rows(
    model: Seq2Seq,
    state: DecoderState,
    limits: Sequence[int],
    choose: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
) -> list[Hypothesis]:
    """Decode one hypothesis for every row, with one token per step. Its score is its log-probability.

    Args:
        state: the state before the first step.
        limits: the maximal number of tokens of each row, EOS included.
        choose: from the logits "R V" of the unfinished rows, their row numbers " R" and the length after this step, to
            the log-probability " R" and the id " R" of the next token.
    """
    found: dict[int, Hypothesis] = {}
    row = torch.arange(len(limits), device=model.device)
    limit = torch.tensor(limits, device=model.device)
    tokens = torch.full((len(limits), 1), BOS, device=model.device)
    log_prob = torch.zeros(1, device=model.device)
    for length in count(1):
        output, state = model.step(tokens[:, -1], state)
        token_log_prob, token = choose(output.logits[:, -1], row, length)
        log_prob = log_prob + token_log_prob
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        finished = token == EOS
        done = finished | (limit == length)
        if not done.any():
            continue
        for number, ids, total, ended in zip(
            row[done].tolist(),
            tokens[done, 1:].tolist(),
            log_prob[done].tolist(),
            finished[done].tolist(),
            strict=True,
        ):
            found[number] = Hypothesis(ids[:-1] if ended else ids, total, total, ended)
        rest = (~done).nonzero().squeeze(1)
        if not len(rest):
            break
        state = state.reorder(rest)
        row, limit, tokens, log_prob = (t[rest] for t in (row, limit, tokens, log_prob))
    return [found[number] for number in range(len(limits))]


def next_tokens(logits: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """Return the log-probabilities and ids of the ``k`` most probable next tokens of each row, best first.

    C < k if the vocabulary is smaller. Log-probabilities are normalised over the whole vocabulary, in at least float32.
    PAD and BOS are never returned.
    """
    excluded = 2
    if logits.dtype != torch.float64:
        logits = logits.float()
    # Select by logits, and normalise only the selected ones.
    values, tokens = kernels.stable_topk(logits, k + excluded)
    # Never above 0, also after rounding: early stopping in beam search relies on it.
    log_probs = values - kernels.log_sum_exp(logits, tokens[:, :1])
    allowed = (tokens != PAD) & (tokens != BOS)
    if not allowed.all():
        order = allowed.int().argsort(dim=1, descending=True, stable=True)
        log_probs, tokens = log_probs.gather(1, order), tokens.gather(1, order)
    candidates = min(k, logits.shape[1] - excluded)
    return log_probs[:, :candidates], tokens[:, :candidates]
