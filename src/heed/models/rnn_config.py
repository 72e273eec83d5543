"""The configuration of the RNN."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

from heed.layers.attention_scores import SCORES
from heed.models.seq2seq import ModelConfig
from heed.options import AtLeast1, Depth, UnitInterval, format_value, raise_problems, validated


@validated("model.attention.")
@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """The attention of the decoder to the source. With ``score`` none it has the encoder's final state only."""

    score: str
    """A name in `SCORES`, or none."""
    reach: Literal["global", "local_m", "local_p"]
    """The whole source, or a window around p_t = t or around a predicted p_t"""
    window: AtLeast1 | None
    """D of the local reaches, whose window is [p_t − D, p_t + D]. Otherwise null."""
    order: Literal["luong", "bahdanau"]
    """luong: h_t → c_t → h̃_t (2015, §3.1) | bahdanau: s_{t-1} → c_t → s_t (2015, §3.1)"""
    input_feeding: bool
    """The previous attentional state h̃_{t-1} is an input of the decoder (Luong et al. 2015, §3.3)."""
    coverage: bool
    """The score depends on the attention that a source state has had so far (See et al. 2017, eq. 11)."""
    max_source: AtLeast1 | None
    """The longest source, for location attention, which has weights per position. Otherwise null."""

    def __post_init__(self) -> None:
        raise_problems(self._contradictions())

    def _contradictions(self) -> Iterator[str]:
        if self.score not in ("none", *SCORES):
            yield f"model.attention.score={format_value(self.score)} must be {' or '.join((*SCORES, 'none'))}."
            return
        if self.score == "none":
            neutral = {"reach": "global", "window": None, "input_feeding": False, "coverage": False, "max_source": None}
            for option, value in neutral.items():
                if (given := getattr(self, option)) != value:
                    yield (
                        f"model.attention.{option}={format_value(given)} needs attention: choose a "
                        f"model.attention.score, or {option}={format_value(value)}."
                    )
            return
        score = SCORES[self.score]
        if self.input_feeding and self.order == "bahdanau":
            yield (
                "model.attention.input_feeding=true contradicts model.attention.order=bahdanau, where the context is "
                "an input of the cell anyway: set input_feeding=false or order=luong."
            )
        if self.reach == "global" and self.window is not None:
            yield (
                f"model.attention.window={self.window} has no effect with model.attention.reach=global: choose "
                "reach=local_m or local_p, or window=null."
            )
        if self.reach != "global" and self.window is None:
            yield (
                f"model.attention.window=null contradicts model.attention.reach={self.reach}: give the number of "
                "positions to either side, such as 10."
            )
        if self.coverage and not score.supports_coverage:
            yield (
                f"model.attention.coverage=true is not supported by model.attention.score={self.score}: choose "
                f"{' or '.join(name for name, each in SCORES.items() if each.supports_coverage)}, or coverage=false."
            )
        if score.needs_max_source != (self.max_source is not None):
            limited = " and ".join(name for name, each in SCORES.items() if each.needs_max_source)
            yield (
                f"model.attention.max_source={format_value(self.max_source)} contradicts "
                f"model.attention.score={self.score}: {limited} needs the length of the longest source, the others "
                "have no limit (null)."
            )

    @property
    def is_bahdanau(self) -> bool:
        """Whether the context is an input of the cell (Bahdanau's order)."""
        return self.order == "bahdanau" and self.score != "none"

    @property
    def needs_steps(self) -> bool:
        """Whether a step depends on the attention of the step before, so that teacher forcing also runs stepwise."""
        return self.is_bahdanau or self.input_feeding or self.coverage


@validated("model.")
@dataclass(frozen=True, kw_only=True)
class RNNConfig(ModelConfig):
    """The architecture of an RNN. conf/model/rnn.yaml explains each option."""

    family: ClassVar[str] = "rnn"
    second_width: ClassVar[str] = "d_embedding"

    cell: Literal["tanh", "lstm", "gru"]
    d_embedding: AtLeast1
    d_model: AtLeast1
    """The width of the decoder's and the encoder's states. Each of two directions has half of it."""
    layers: Depth
    """Of the encoder and of the decoder: each decoder layer starts from the final state of its encoder layer."""
    residual: bool
    """From the second layer on, add a layer's input to its output (Wu et al. 2016, §3.1)."""
    bidirectional: bool
    reverse_source: bool
    """An encoder of one direction reads the source backwards (Sutskever et al. 2014, §3.3)."""
    dropout: UnitInterval
    """Of each layer's input and the decoder's output, with a new mask at every step."""
    tie_embeddings: bool
    """Share the output layer with the target embedding and, with a joint vocabulary, with the source embedding."""
    attention: AttentionConfig

    def _contradictions(self) -> Iterator[str]:
        if self.bidirectional and self.d_model % 2:
            yield (
                f"model.d_model={self.d_model} must be even: each direction of a bidirectional encoder has half of it."
            )
        if self.bidirectional and self.reverse_source:
            yield (
                "model.reverse_source=true contradicts model.bidirectional=true, which reads the source in both "
                "directions: set one of them to false."
            )
        if self.residual and self.layers == 1:
            yield ("model.residual=true has no effect with model.layers=1: choose more layers, or residual=false.")

    @property
    def depth(self) -> int:
        return 2 * self.layers

    @property
    def width(self) -> int:
        return max(self.d_embedding, self.d_model, self.attention.max_source or 0)

    @property
    def width_multiple(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def length_limits(self) -> dict[str, tuple[float, float, float]]:
        limit = self.attention.max_source
        return {f"model.attention.max_source={limit}": (float(limit), inf, inf)} if limit else {}
