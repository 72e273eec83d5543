"""The interface of searches, and what they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated

import torch
from annotated_types import Interval
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.decoding.constraints import Constraint, NoRepeatedNGrams, RowConstraints, raised_limit
from heed.errors import HeedError
from heed.functional.linear import Prepare
from heed.kernels.choice import is_plain
from heed.models.seq2seq import DecoderState, Seq2Seq
from heed.options import AtLeast0, validated
from heed.symbols import BOS, EOS, PAD

# The upper bounds are far above useful values. They prevent a typo from exhausting memory or time.
LengthFactor = Annotated[float, Interval(ge=0, le=100)]
LengthExtra = Annotated[int, Interval(ge=0, le=10_000)]
SampleCount = Annotated[int, Interval(ge=1, le=10_000)]
Nucleus = Annotated[float, Interval(gt=0, le=1)]


@dataclass(frozen=True)
class Hypothesis:
    """A translation as token ids, with its scores."""

    tokens: list[int]  # without BOS and EOS
    log_prob: float  # the sum of log p over the tokens, and EOS if finished, in nats
    score: float  # the value by which the search ranks
    finished: bool  # whether it ends with EOS, instead of being cut at the length limit
    token_log_probs: Sequence[float] = field(default=(), compare=False)
    """log p of each token, and of EOS if finished; empty if the engine does not say."""


NBest = list[Hypothesis]  # hypotheses of one sentence, best first
Constraints = Sequence[Sequence[Constraint]] | None
"""The constraints of each sentence, in order of their priority; None: no sentence has any."""


@validated("search.")
@dataclass(kw_only=True, eq=False)
class Search(ABC):
    """A search for translations of a batch of source sentences.

    The result for a sentence does not depend on the rest of the batch. Its length limit is ``max_length_factor`` ×
    source length + ``max_length_extra`` tokens, at least 1, with EOS counted on both sides.
    """

    max_length_factor: LengthFactor
    max_length_extra: LengthExtra
    no_repeat_ngram_size: AtLeast0 = 0
    """No sequence of this many pieces is repeated in a translation; 0: no limit."""
    utility: str | None = field(default=None, init=False)
    """The metric that the search maximizes, for minimum Bayes risk decoding: scores by this metric are biased."""

    def __post_init__(self) -> None:
        if self.max_length_factor + self.max_length_extra == 0:
            raise HeedError(
                f"search.max_length_factor={self.max_length_factor} and search.max_length_extra="
                f"{self.max_length_extra} allow no tokens: one of them must be > 0."
            )

    @abstractmethod
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], constraints: Constraints = None
    ) -> list[NBest]:
        """Return the hypotheses of each sentence, at least one.

        Raises:
            HeedError: if the model's limit is too short for the constraints.
        """

    def with_text(self, decode: Callable[[Sequence[Sequence[int]]], list[str]]) -> "Search":
        """Return a search that converts ids to text by ``decode``, if it compares texts (`MBRSearch`); else itself."""
        return self

    def with_all(self) -> "Search":
        """Return a search that returns all hypotheses that it finds, instead of the ``n_best``."""
        return self

    def limits(self, model: Seq2Seq, src_mask: Bool[Tensor, "B S"], constraints: Constraints = None) -> list[int]:
        """Return the maximal number of target tokens of each sentence, EOS included: enough for its constraints."""
        maximum = model.max_target_length
        limits = [self.limit(length, maximum) for length in src_mask.sum(dim=1).tolist()]
        if constraints is None:
            return limits
        extra = self.max_length_extra
        return [raised_limit(limit, own, extra, maximum) for limit, own in zip(limits, constraints, strict=True)]

    def rules(self, constraints: Constraints, limits: Sequence[int]) -> RowConstraints | None:
        """Return the constraints of a search with one row per sentence; None if there are none."""
        constraints = constraints or [()] * len(limits)
        if self.no_repeat_ngram_size:
            constraints = [(*own, NoRepeatedNGrams(self.no_repeat_ngram_size)) for own in constraints]
        return RowConstraints(constraints, limits) if any(constraints) else None

    def limit(self, src_length: int, maximum: int | None) -> int:
        """Return the maximal number of target tokens of a sentence, given the limit of the model, if it has one."""
        limit = max(1, self.max_length_factor * src_length + self.max_length_extra)
        return int(limit if maximum is None else min(maximum, limit))


def for_search(model: Seq2Seq, prepare: Prepare = kernels.prepared_linear) -> Seq2Seq:
    """Return `Seq2Seq.fused` of a model where no gradient, autocast or plain formula is asked for, else the model."""
    if torch.is_grad_enabled() or torch.is_autocast_enabled(model.device.type) or is_plain():
        return model
    return model.fused(prepare)


def steps_between_stop_checks(device: torch.device) -> int:
    """Return the number of steps between two checks for finished hypotheses.

    On an accelerator, a check synchronizes the host with the device. That costs more than a few unnecessary steps. On a
    CPU a check is free.
    """
    return 1 if device.type == "cpu" else 8


def decode_rows(
    model: Seq2Seq,
    state: DecoderState,
    limits: Sequence[int],
    choose: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
    rules: RowConstraints | None = None,
) -> list[Hypothesis]:
    """Decode one hypothesis per row, one token per step. Its score is its log-probability.

    Finished rows continue until the next check (see `steps_between_stop_checks`). Their tokens after EOS are dropped.

    Args:
        state: the state before the first step, with one row per sentence.
        limits: the maximal number of tokens of each row, EOS included.
        choose: maps the logits "R V" of the unfinished rows, their row numbers " R" and the length after this step to
            the log-probability " R" and the id " R" of each row's next token.
        rules: the constraints of each row. ``choose`` sees the logits of what may follow; log p is the model's.
    """
    device = model.device
    history = History(len(limits), device)
    row = torch.arange(len(limits), device=device)
    limit = torch.tensor(limits, device=device)
    token = torch.full_like(row, BOS)
    log_prob = torch.zeros(1, device=device)
    done = torch.zeros_like(row, dtype=torch.bool)
    for length in range(1, max(limits) + 1):
        output, state = model.step(token, state)
        logits = output.logits[:, -1]
        token_log_prob, token = choose(logits if rules is None else rules.forbid(logits, length), row, length)
        if rules is not None:
            token_log_prob = token_log_probs(logits).gather(1, token[:, None])[:, 0]
            rules = rules.after(range(len(token)), token.tolist())
        log_prob = log_prob + token_log_prob
        history.append(token, log_prob)
        done = done | (token == EOS) | (limit == length)
        if length % steps_between_stop_checks(device) and length < max(limits):
            continue
        is_done = done.tolist()
        if all(is_done):
            break
        if any(is_done):
            rest = torch.tensor([number for number, each in enumerate(is_done) if not each], device=device)
            state = state.reorder(rest, sentences=rest)
            row, limit, token, log_prob, done = (t[rest] for t in (row, limit, token, log_prob, done))
            history.keep(rest)
            rules = rules and rules.keep(rest.tolist())
    return [
        _cut(tokens, log_probs, limit)
        for tokens, log_probs, limit in zip(*(part.tolist() for part in history.tensors()), limits, strict=True)
    ]


def _cut(tokens: list[int], log_probs: list[float], limit: int) -> Hypothesis:
    """Return the hypothesis that ends with the first EOS, or at the limit. ``log_probs`` are sums up to each token."""
    end = tokens.index(EOS) if EOS in tokens[:limit] else None
    length = limit if end is None else end + 1
    log_prob, steps = log_probs[length - 1], differences(log_probs[:length])
    return Hypothesis(tokens[:limit] if end is None else tokens[:end], log_prob, log_prob, end is not None, steps)


def differences(sums: Sequence[float]) -> list[float]:
    """Return the terms of a sequence of cumulative sums."""
    return [after - before for before, after in pairwise([0.0, *sums])]


class History:
    """The choices of a search at every step, kept on the device until the search ends.

    Args:
        rows: the number of rows (hypotheses or sentences) at the first step.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        self._rows = torch.arange(rows, device=device)
        self._all_rows = rows
        self._steps: list[tuple[Tensor, ...]] = []

    def append(self, *choices: Tensor) -> None:
        """Add one step: tensors "R …" for the remaining rows, the same number of tensors at every step."""
        if len(self._rows) < self._all_rows:  # add zeros for the rows that were dropped
            choices = tuple(
                each.new_zeros(self._all_rows, *each.shape[1:]).index_copy_(0, self._rows, each) for each in choices
            )
        self._steps.append(choices)

    def keep(self, rows: Int[Tensor, " R2"]) -> None:
        """Keep only ``rows``: row r is then the former row ``rows[r]``."""
        self._rows = self._rows[rows]

    def tensors(self) -> tuple[Tensor, ...]:
        """Return all choices, "N T …" for the N rows of the first step, with zeros after the last step of a row."""
        return tuple(torch.stack(steps, 1) for steps in zip(*self._steps, strict=True))


def token_log_probs(logits: Float[Tensor, "R V"]) -> Float[Tensor, "R V"]:
    """Return the log-probability of every next token, in at least float32, as a new tensor.

    They are normalised over the whole vocabulary and never above 0, even after rounding. PAD, BOS, and all tokens of a
    row with NaN have -inf.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    log_probs = logits.log_softmax(1, dtype=dtype).nan_to_num_(nan=-torch.inf, neginf=-torch.inf)
    log_probs[:, PAD] = log_probs[:, BOS] = -torch.inf
    return log_probs
