"""What every search takes and gives, writing one token at a time, and the choice of the next token's candidates."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.errors import HeedError
from heed.models.seq2seq import DecoderState, Seq2Seq
from heed.options import Range, check
from heed.symbols import BOS, EOS, PAD

# Upper bounds lie far above what helps a translation: they keep a typo from taking all memory or running for ever.
LengthFactor = Annotated[float, Range(0, at_most=100)]
LengthExtra = Annotated[int, Range(0, at_most=10_000)]
BeamSize = Annotated[int, Range(1, at_most=1_000)]
Draws = Annotated[int, Range(1, at_most=10_000)]
LengthPenalty = Annotated[float, Range(0, at_most=10)]
Nucleus = Annotated[float, Range(above=0, at_most=1)]


@dataclass(frozen=True)
class Hypothesis:
    """A translation as ids, and what the model thinks of it."""

    tokens: list[int]
    """Without BOS and EOS."""
    log_prob: float
    """Sum of log p over the tokens, and over EOS if finished; nats."""
    score: float
    """What the search ranked by."""
    finished: bool
    """False: cut off at the length limit."""


class Search(ABC):
    """From a model and a source batch to translations.

    A search knows a model by its contract alone. What it finds for a sentence never depends on the rest of its
    batch, so its only limit is the sentence's own: ``max_length_factor`` × source length + ``max_length_extra``
    tokens, EOS counted on both sides, and one at least.
    """

    def __init__(self, *, max_length_factor: LengthFactor, max_length_extra: LengthExtra) -> None:
        limit = {"max_length_factor": max_length_factor, "max_length_extra": max_length_extra}
        check(Search, limit, where="search.")
        if max_length_factor + max_length_extra == 0:
            raise HeedError(
                f"search.max_length_factor={max_length_factor} and search.max_length_extra={max_length_extra} "
                "leave no room for a translation: one of them must be above 0."
            )
        self.max_length_factor = max_length_factor
        self.max_length_extra = max_length_extra

    @abstractmethod
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        """Per sentence its hypotheses, best first, and never none."""

    def with_text(self, decode: Callable[[Sequence[Sequence[int]]], list[str]]) -> "Search":
        """This search, able to read what it writes: only one that compares texts has to (`MBRSearch`)."""
        return self

    def limits(self, model: Seq2Seq, src_mask: Bool[Tensor, "B S"]) -> list[int]:
        """How many tokens each sentence may get, EOS included."""
        lengths: list[int] = src_mask.sum(dim=1).tolist()
        most = math.inf if model.max_target_length is None else model.max_target_length
        return [int(min(most, max(1, self.max_length_factor * length + self.max_length_extra))) for length in lengths]


def write(
    model: Seq2Seq,
    state: DecoderState,
    limits: Sequence[int],
    choose: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
) -> list[Hypothesis]:
    """One hypothesis for every row of a fresh ``state``, token by token as ``choose`` says; its score is its log p.

    ``choose`` gets the logits "R V" of the rows still being written, their numbers " R", and the length to which the
    next token brings them; it gives that token's log p " R" and id " R".
    """
    found: dict[int, Hypothesis] = {}
    row = torch.arange(len(limits), device=model.device)
    limit = torch.tensor(limits, device=model.device)
    tokens = torch.full((len(limits), 1), BOS, device=model.device)
    log_prob = torch.zeros(1, device=model.device)
    for length in count(1):
        output, state = model.step(tokens[:, -1], state)
        gain, token = choose(output.logits[:, -1], row, length)
        log_prob = log_prob + gain
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        finished = token == EOS
        leaves = finished | (limit == length)
        if not leaves.any():
            continue
        for number, ids, total, done in zip(
            row[leaves].tolist(),
            tokens[leaves, 1:].tolist(),
            log_prob[leaves].tolist(),
            finished[leaves].tolist(),
            strict=True,
        ):
            found[number] = Hypothesis(ids[:-1] if done else ids, total, total, done)
        stays = (~leaves).nonzero().squeeze(1)
        if not len(stays):
            break
        state = state.reorder(stays)
        row, limit, tokens, log_prob = (t[stays] for t in (row, limit, tokens, log_prob))
    return [found[number] for number in range(len(limits))]


def next_tokens(logits: Float[Tensor, "R V"], k: int) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The ``k`` likeliest next tokens of each row with their log p, best first (C < k in a tiny vocabulary).

    log p is the model's own, over its whole vocabulary, in float32 or better. PAD and BOS are no candidates.
    """
    never = 2
    if logits.dtype != torch.float64:
        logits = logits.float()
    # Choosing by logit and normalising only what was chosen spares work.
    values, tokens = kernels.stable_topk(logits, k + never)
    # Never above 0, rounded or not, on which the beam's proof that it may stop rests.
    log_probs = values - kernels.log_sum_exp(logits, tokens[:, :1])
    allowed = (tokens != PAD) & (tokens != BOS)
    if not allowed.all():
        order = allowed.int().argsort(dim=1, descending=True, stable=True)
        log_probs, tokens = log_probs.gather(1, order), tokens.gather(1, order)
    candidates = min(k, logits.shape[1] - never)
    return log_probs[:, :candidates], tokens[:, :candidates]
