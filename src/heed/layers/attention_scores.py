"""Score functions: how well a decoder state matches each encoder state, for the RNN's attention.

``project`` computes once per sentence what depends on the source only, ``forward`` the rest at every step. The window
of source positions that share the attention is chosen separately (heed.layers.reach).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed.errors import HeedError

States = Float[Tensor, "B S D"]
Mask = Bool[Tensor, "B S"]
Queries = Float[Tensor, "B T Q"]
Keys = Float[Tensor, "B S A"]
Scores = Float[Tensor, "B T S"]

SCORES: dict[str, type["ScoreFunction"]] = {}
"""The score functions by their names in `model.attention.score`."""


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What a score function is built for."""

    query_width: int
    state_width: int
    max_source: int | None = None
    """The longest source; None: no limit."""
    coverage: bool = False
    """The score also depends on earlier attention."""


class ScoreFunction(nn.Module, ABC):
    """score(h_t, h_s) for a decoder state h_t and an encoder state h_s.

    A subclass with a name is a value of `model.attention.score`: ``class DotScore(ScoreFunction, name="dot")``.
    """

    supports_coverage = False
    needs_max_source = False

    def __init_subclass__(cls, name: str = "") -> None:
        if name:
            SCORES[name] = cls

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__()

    def project(self, states: States, mask: Mask) -> Keys:
        """Return the keys: the part of the score that depends on the encoder states only."""
        return states

    @abstractmethod
    def forward(self, query: Queries, keys: Keys, coverage: Scores | None = None) -> Scores:
        """Return the unnormalised score of every query with every key.

        Args:
            query: decoder states.
            keys: the result of :meth:`project`.
            coverage: the sum of the attention weights of each encoder state before each query, for score functions
                that use it; otherwise None.
        """


class DotScore(ScoreFunction, name="dot"):
    """h_tᵀ h_s (Luong et al. 2015, eq. 8). Both widths must be equal."""

    def forward(self, query: Queries, keys: Keys, coverage: Scores | None = None) -> Scores:
        return query @ keys.transpose(1, 2)


class ScaledDotScore(DotScore, name="scaled_dot"):
    """h_tᵀ h_s / √D (Vaswani et al. 2017, §3.2.1), so that the variance of the scores does not grow with D."""

    def forward(self, query: Queries, keys: Keys, coverage: Scores | None = None) -> Scores:
        return super().forward(query * query.shape[-1] ** -0.5, keys)


class GeneralScore(DotScore, name="general"):
    """h_tᵀ W h_s (Luong et al. 2015, eq. 8)."""

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        self.weight = nn.Linear(options.state_width, options.query_width, bias=False)

    def project(self, states: States, mask: Mask) -> Keys:
        return self.weight(states)


class AdditiveScore(ScoreFunction, name="additive"):
    """vᵀ tanh(W h_t + U h_s) (Bahdanau et al. 2015, appendix A.1.2). W h_t has the width of h_t.

    With coverage the score is vᵀ tanh(W h_t + U h_s + w_c c_t(s)), where c_t = Σ_{t' < t} a_{t'} is the sum of earlier
    attention weights (See et al. 2017, eq. 10 and 11, without their coverage loss).
    """

    supports_coverage = True

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        width = options.query_width
        self.query = nn.Linear(options.query_width, width, bias=False)
        self.state = nn.Linear(options.state_width, width, bias=False)
        self.coverage = nn.Linear(1, width, bias=False) if options.coverage else None
        self.v = nn.Linear(width, 1, bias=False)

    def project(self, states: States, mask: Mask) -> Keys:
        return self.state(states)

    def forward(self, query: Queries, keys: Keys, coverage: Scores | None = None) -> Scores:
        hidden = self.query(query)[:, :, None] + keys[:, None]
        if self.coverage is not None:
            assert coverage is not None
            hidden = hidden + self.coverage(coverage[..., None])
        return self.v(torch.tanh(hidden)).squeeze(-1)


class ConcatScore(AdditiveScore, name="concat"):
    """vᵀ tanh(W_a [h_t; h_s]) (Luong et al. 2015, eq. 8): the additive score with W_a = [W; U]."""


class LocationScore(ScoreFunction, name="location"):
    """(W h_t)_s: a score for each of ``max_source`` positions from the decoder state only (Luong et al. 2015, eq. 8).

    It has no weights for positions beyond, so a longer source is refused.
    """

    needs_max_source = True

    def __init__(self, options: ScoreOptions) -> None:
        super().__init__(options)
        assert options.max_source is not None
        self.weight = nn.Linear(options.query_width, options.max_source, bias=False)

    def project(self, states: States, mask: Mask) -> Keys:
        """Return the states unchanged.

        Raises:
            HeedError: if a sentence is longer than ``max_source``.
        """
        limit = self.weight.out_features
        # Reading the mask waits for the GPU, so read it only if a source may be too long.
        if mask.shape[1] > limit and mask[:, limit:].any():
            raise HeedError(
                f"A source of {int(mask.sum(1).max())} pieces is longer than model.attention.max_source={limit}, and "
                "location attention has no weights for the rest. Shorten the sentence, or train with a larger "
                "model.attention.max_source or another model.attention.score, which has no limit."
            )
        return states

    def forward(self, query: Queries, keys: Keys, coverage: Scores | None = None) -> Scores:
        # A negative pad truncates. Zeros are added only at padding, which the mask excludes.
        return F.pad(self.weight(query), (0, keys.shape[1] - self.weight.out_features))
