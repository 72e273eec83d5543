"""The RNN encoder-decoder with attention: what the transformer is compared with (Bahdanau 2015, Luong 2015)."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed.errors import HeedError
from heed.kernels.unrolled import Unrolled
from heed.layers.dropout import SequenceDropout
from heed.layers.embedding import TokenEmbedding
from heed.layers.reach import REACHES, Reach, build_reach
from heed.layers.recurrence import CELLS, CellState, RecurrentLayer
from heed.layers.scores import COVERAGE_SCORES, SCORES, ScoreFunction, build_score_function
from heed.models.seq2seq import (
    AttentionMaps,
    DecoderHidden,
    DecoderOutput,
    DecoderState,
    Memory,
    ModelConfig,
    TrainableSeq2Seq,
)
from heed.options import Depth, from_plain


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """How the decoder looks at the source: ``score`` none leaves it the encoder's final state alone."""

    score: str
    """dot | scaled_dot | general | concat | additive | location | none"""
    reach: str
    """global | local_m | local_p: the whole source, or a window around p_t = t or around a predicted p_t"""
    window: int | None
    """D of the local reaches, whose window is [p_t − D, p_t + D]."""
    order: str
    """luong: h_t → c_t → h̃_t (2015, §3.1) | bahdanau: s_{t-1} → c_t → s_t (2015, §3.1)"""
    input_feeding: bool
    """The decoder also reads its last attentional state h̃_{t-1} (Luong et al. 2015, §3.3)."""
    coverage: bool
    """The score heeds how much attention a source state has had (See et al. 2017, eq. 11)."""
    max_source: int | None
    """The longest source that location attention has weights for; else null."""

    def __post_init__(self) -> None:
        if self.score not in (*SCORES, "none"):
            raise HeedError(
                f"model.attention.score={self.score} is unknown: choose one of {', '.join(SCORES)} or none."
            )
        if self.reach not in REACHES:
            raise HeedError(f"model.attention.reach={self.reach} is unknown: choose one of {', '.join(REACHES)}.")
        if self.order not in ("luong", "bahdanau"):
            raise HeedError(f"model.attention.order={self.order} is unknown: choose luong or bahdanau.")
        if self.input_feeding and self.order == "bahdanau":
            raise HeedError(
                "model.attention.input_feeding=true contradicts model.attention.order=bahdanau, where the context "
                "enters the cell anyway: set one of them otherwise."
            )
        if self.input_feeding and self.score == "none":
            raise HeedError(
                "model.attention.input_feeding=true needs attention to feed: choose a model.attention.score, or false."
            )
        window = "null" if self.window is None else self.window
        if self.score == "none" and (self.reach, self.window) != ("global", None):
            raise HeedError(
                f"model.attention.reach={self.reach} with model.attention.window={window} needs attention to limit: "
                "choose a model.attention.score, or leave them at global and null."
            )
        if self.reach != "global" and (self.window is None or self.window < 1):
            raise HeedError(
                f"model.attention.window={window} leaves model.attention.reach={self.reach} no window: choose 1 "
                "or more positions to either side."
            )
        if self.coverage and self.score not in COVERAGE_SCORES:
            raise HeedError(
                f"model.attention.coverage=true contradicts model.attention.score={self.score}, which has no place "
                f"for it: choose {' or '.join(COVERAGE_SCORES)}, or false."
            )
        if (self.score == "location") != (self.max_source is not None):
            max_source = "null" if self.max_source is None else self.max_source
            raise HeedError(
                f"model.attention.max_source={max_source} contradicts model.attention.score={self.score}: "
                "location needs the length of the longest source, the others have no limit (null)."
            )
        if self.max_source is not None and self.max_source < 1:
            raise HeedError(f"model.attention.max_source={self.max_source}: at least 1 is needed.")

    @property
    def context_first(self) -> bool:
        """Bahdanau's order: the context enters the cell."""
        return self.order == "bahdanau" and self.score != "none"

    @property
    def ties_steps(self) -> bool:
        """A step needs what attention found in the one before, so that a known target, too, is read step by step."""
        return self.context_first or self.input_feeding or self.coverage


@dataclass(frozen=True, kw_only=True)
class RNNConfig(ModelConfig):
    """Every choice about the architecture; conf/model/rnn.yaml gives the reasons."""

    family: ClassVar[str] = "rnn"

    cell: str
    """tanh | lstm | gru"""
    d_embedding: int
    d_model: int
    """Width of the decoder's state and of the encoder's: each direction has half of it where there are two."""
    layers: Depth
    """Of the encoder and of the decoder alike, since each decoder layer starts from its encoder layer."""
    residual: bool
    """From the second on, a layer's input is added to its output (Wu et al. 2016, §3.1)."""
    bidirectional: bool
    dropout: float
    dropout_kind: str
    """standard: of what enters and leaves the layers, anew at every step | variational: one mask per sentence, of the
    recurrent state too (Gal & Ghahramani 2016)"""
    tie_embeddings: bool
    """The output layer is the target embedding, and the source embedding too where the vocabulary is joint."""
    attention: AttentionConfig

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise HeedError(f"model.cell={self.cell} is unknown: choose one of {', '.join(CELLS)}.")
        for size in ("d_embedding", "d_model", "layers"):
            if getattr(self, size) < 1:
                raise HeedError(f"model.{size}={getattr(self, size)}: at least 1 is needed.")
        if self.bidirectional and self.d_model % 2:
            raise HeedError(
                f"model.d_model={self.d_model} is odd, but a bidirectional encoder gives each direction half of it."
            )
        if self.residual and self.layers == 1:
            raise HeedError(
                "model.residual=true adds a layer's input to its output from the second layer on, but model.layers=1: "
                "choose more layers, or false."
            )
        if not 0 <= self.dropout < 1:
            raise HeedError(f"model.dropout={self.dropout} is no share to drop: choose one from 0 up to 1.")
        if self.dropout_kind not in ("standard", "variational"):
            raise HeedError(f"model.dropout_kind={self.dropout_kind} is unknown: choose standard or variational.")

    @property
    def depth(self) -> int:
        return 2 * self.layers

    @property
    def width(self) -> int:
        return max(self.d_embedding, self.d_model, self.attention.max_source or 0)

    def build(self, *, src_vocab: int, tgt_vocab: int, joint: bool) -> "RNN":
        return RNN(self, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Any) -> "RNNConfig":
        return from_plain(cls, data, where="model.")


@dataclass(frozen=True)
class Masks:
    """Variational dropout's masks for one decoder, a row per hypothesis; None where there is no such dropout."""

    inputs: tuple[Tensor | None, ...]
    """Of each layer, in its input's width."""
    states: tuple[Float[Tensor, "R D"] | None, ...]
    """Of each layer, on their way into the gates."""
    output: Float[Tensor, "R D"] | None

    def reorder(self, rows: Int[Tensor, " R2"]) -> "Masks":
        def moved(masks: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
            return tuple(None if mask is None else mask[rows] for mask in masks)

        return Masks(moved(self.inputs), moved(self.states), *moved((self.output,)))


@dataclass(frozen=True)
class RNNState(DecoderState):
    """Each layer's memory, what is fed back, and the source with its projected keys."""

    layers: tuple[CellState, ...]
    feed: Float[Tensor, "R D"]
    """h̃_{t-1}, zeros at first (Luong et al. 2015, §3.3)."""
    coverage: Float[Tensor, "R S"]
    """The attention that every source position has had so far."""
    masks: Masks
    length: int
    """Positions written so far, the same for all rows."""
    keys: Float[Tensor, "R S A"]
    memory: Float[Tensor, "R S D"]
    mask: Bool[Tensor, "R S"]
    sentence: Int[Tensor, " R"]

    def reorder(self, rows: Int[Tensor, " R2"]) -> "RNNState":
        sentence = self.sentence[rows]
        # Beams mostly trade places within their sentence, whose memory they share: no need to copy that.
        same = torch.equal(sentence, self.sentence)
        return RNNState(
            layers=tuple(tuple(part[rows] for part in layer) for layer in self.layers),
            feed=self.feed[rows],
            coverage=self.coverage[rows],
            masks=self.masks.reorder(rows),
            length=self.length,
            keys=self.keys if same else self.keys[rows],
            memory=self.memory if same else self.memory[rows],
            mask=self.mask if same else self.mask[rows],
            sentence=sentence,
        )


class Encoder(nn.Module):
    """A stack of (bi)directional recurrent layers over the sentences alone, never over their padding."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        directions = 2 if config.bidirectional else 1
        self.residual = config.residual
        self.dropout = SequenceDropout(config.dropout, variational=config.dropout_kind == "variational")
        self.layers = nn.ModuleList(
            nn.ModuleList(
                RecurrentLayer(
                    config.cell,
                    input_width=config.d_model if layer else config.d_embedding,
                    width=config.d_model // directions,
                )
                for _ in range(directions)
            )
            for layer in range(config.layers)
        )

    def forward(
        self, x: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], tuple[CellState, ...]]:
        """The top layer's states (zeros at padding), and per layer the final state, its directions joined."""
        lengths = mask.sum(1).cpu()  # packing plans its kernels on the host
        mirror = _mirror(mask)
        finals = []
        for number, directions in enumerate(self.layers):
            below = x
            x = self.dropout(x, self.dropout.mask(len(x), x.shape[2], x.device))
            outs, ends = [], []
            for direction, layer in enumerate(cast(nn.ModuleList, directions)):
                assert isinstance(layer, RecurrentLayer)
                read = x.take_along_dim(mirror, 1) if direction else x
                before = layer.zeros(len(x))
                dropped = self.dropout.mask(len(x), before[0].shape[1], x.device)
                out, end = layer(read, before, lengths=lengths, mask=dropped)
                outs.append(out.take_along_dim(mirror, 1) if direction else out)
                ends.append(end)
            x = torch.cat(outs, 2)
            if self.residual and number:
                x = below + x
            finals.append(tuple(torch.cat(parts, 1) for parts in zip(*ends, strict=True)))
        return x, tuple(finals)


class RNN(TrainableSeq2Seq):
    """Encoder states are memory; at each step the decoder looks at them and writes one token."""

    config: RNNConfig

    def __init__(self, config: RNNConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> None:
        super().__init__()
        self.config = config
        attention, width = config.attention, config.d_model
        self.tgt_embedding = TokenEmbedding(vocab_size=tgt_vocab, d_model=config.d_embedding)
        self.src_embedding = (
            self.tgt_embedding
            if joint and config.tie_embeddings
            else TokenEmbedding(vocab_size=src_vocab, d_model=config.d_embedding)
        )
        self.output = (
            self.tgt_embedding
            if config.tie_embeddings
            else TokenEmbedding(vocab_size=tgt_vocab, d_model=config.d_embedding)
        )
        self.dropout = SequenceDropout(config.dropout, variational=config.dropout_kind == "variational")
        self.encoder = Encoder(config)
        self.decoder = nn.ModuleList(
            RecurrentLayer(config.cell, input_width=width if layer else config.d_embedding, width=width)
            for layer in range(config.layers)
        )
        self.extra: nn.Linear | None = None
        if attention.input_feeding or attention.context_first:
            # The first layer reads [E y; h̃_{t-1}] or [E y; c_t]. Its matrix is split into its two halves, so that the
            # half that meets the embeddings is applied to all of them at once.
            self.extra = nn.Linear(width, CELLS[config.cell].gates * width, bias=False)
        self.score: ScoreFunction | None = None
        self.reach: Reach | None = None
        if attention.score != "none":
            self.score = build_score_function(
                attention.score,
                query_width=width,
                state_width=width,
                max_source=attention.max_source,
                coverage=attention.coverage,
            )
            self.reach = build_reach(attention.reach, query_width=width, window=attention.window)
            # h̃_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015, eq. 5). In Bahdanau's order, too: a simplification of his
            # maxout layer, which reads s_{t-1}, y_{t-1} and c_t (2015, appendix A.2.2).
            self.combine = nn.Linear(2 * width, width, bias=False)
        # To the width of the output table, which the target embedding may be.
        self.readout = nn.Linear(width, config.d_embedding, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(tgt_vocab))
        for module in self.modules():
            if isinstance(module, nn.LSTM):
                _remember(module)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        states, finals = self.encoder(self.src_embedding(src), src_mask)
        return Memory(states, src_mask, final=tuple(part for layer in finals for part in layer))

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        return self._decode(tgt_in, self.start(memory), maps=maps)[0]

    def decode_hidden(
        self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> DecoderHidden:
        return self._read(tgt_in, self.start(self.encode(src, src_mask)))[0]

    def start(self, memory: Memory) -> RNNState:
        assert memory.final is not None
        rows, device = memory.mask.shape[0], memory.mask.device
        parts = len(memory.final) // self.config.layers
        layers = tuple(memory.final[i : i + parts] for i in range(0, len(memory.final), parts))
        widths = (self.config.d_embedding, *[self.config.d_model] * (self.config.layers - 1))
        top = layers[-1][0]
        return RNNState(
            layers=layers,
            feed=torch.zeros_like(top),
            coverage=torch.zeros_like(memory.states[..., 0]),
            masks=Masks(
                inputs=tuple(self.dropout.mask(rows, width, device) for width in widths),
                states=tuple(self.dropout.mask(rows, self.config.d_model, device) for _ in layers),
                output=self.dropout.mask(rows, self.config.d_model, device),
            ),
            length=0,
            keys=memory.states if self.score is None else self.score.prepare(memory.states, memory.mask),
            memory=memory.states,
            mask=memory.mask,
            sentence=torch.arange(rows, device=device),
        )

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, RNNState]:
        assert isinstance(state, RNNState)
        return self._decode(tokens[:, None], state, maps=maps)

    def _decode(self, tokens: Int[Tensor, "R T"], state: RNNState, *, maps: bool) -> tuple[DecoderOutput, RNNState]:
        output, weights, state = self._read(tokens, state)
        attention = None
        if maps:
            cross = None if weights is None else weights[None, None]
            attention = AttentionMaps(cross=cross, encoder_self=None, decoder_self=None)
        return DecoderOutput(output.logits(), attention), state

    def _read(
        self, tokens: Int[Tensor, "R T"], state: RNNState
    ) -> tuple[DecoderHidden, Float[Tensor, "R T S"] | None, RNNState]:
        """Teacher forcing and stepping are one computation: T new positions after ``state.length`` known ones."""
        x = self.dropout(self.tgt_embedding(tokens), state.masks.inputs[0])
        read = self._one_by_one if self.config.attention.ties_steps else self._at_once
        h, weights, state = read(x, state)
        return DecoderHidden(self.readout(h), self.output.weight, self.output_bias), weights, state

    def _at_once(
        self, x: Float[Tensor, "R T I"], state: RNNState
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R T S"] | None, RNNState]:
        """What the output reads, where the decoder looked, and the next state: first all cells run, then all look."""
        h, first = self._layer(0)(x, state.layers[0], mask=state.masks.states[0])
        h, layers = self._upper_layers(h, first, state)
        context, weights = (None, None) if self.score is None else self._look(h, state)
        h = self._attentional(h, context, state.masks, self._combining())
        return h, weights, replace(state, layers=layers, length=state.length + x.shape[1])

    def _one_by_one(
        self, x: Float[Tensor, "R T I"], state: RNNState
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R T S"] | None, RNNState]:
        """The same where every position needs what attention found at the one before."""
        attention, first_layer = self.config.attention, self._layer(0)
        attentional, seen = [], []
        recurrence, combine = first_layer.recurrence(), self._combining()
        extra = None if self.extra is None else Unrolled(self.extra.weight)
        for gates in first_layer.gates(x).unbind(1):
            if attention.context_first:
                context, weights = self._look(state.layers[-1][0][:, None], state)
            if extra is not None:
                gates = gates + extra(context.squeeze(1) if attention.context_first else state.feed)
            first = first_layer.step(gates, state.layers[0], recurrence, state.masks.states[0])
            h, layers = self._upper_layers(first[0][:, None], first, state)
            if not attention.context_first:
                context, weights = self._look(h, state)
            h = self._attentional(h, context, state.masks, combine)
            attentional.append(h)
            seen.append(weights)
            state = replace(
                state,
                layers=layers,
                feed=h.squeeze(1),
                coverage=state.coverage + weights.squeeze(1),
                length=state.length + 1,
            )
        return torch.cat(attentional, 1), torch.cat(seen, 1), state

    def _layer(self, number: int) -> RecurrentLayer:
        return cast(RecurrentLayer, self.decoder[number])

    def _upper_layers(
        self, h: Float[Tensor, "R T D"], first: CellState, state: RNNState
    ) -> tuple[Float[Tensor, "R T D"], tuple[CellState, ...]]:
        """From the first layer's output to the top's, and the state of all layers."""
        layers = [first]
        for number in range(1, self.config.layers):
            read = self.dropout(h, state.masks.inputs[number])
            out, after = self._layer(number)(read, state.layers[number], mask=state.masks.states[number])
            h = h + out if self.config.residual else out
            layers.append(after)
        return h, tuple(layers)

    def _look(
        self, query: Float[Tensor, "R T D"], state: RNNState
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R T S"]]:
        """The context c_t = Σ_s a_t(s) h_s, and a_t: the scores within reach, as weights."""
        assert self.score is not None
        assert self.reach is not None
        coverage = state.coverage[:, None] if self.config.attention.coverage else None
        scores = self.score(query, state.keys, coverage)
        weights = self.reach(scores, query, state.mask, state.length)
        return weights @ state.memory, weights

    def _combining(self) -> Unrolled | None:
        """W_c, for the steps of one pass."""
        return None if self.score is None else Unrolled(self.combine.weight)

    def _attentional(
        self,
        h: Float[Tensor, "R T D"],
        context: Float[Tensor, "R T D"] | None,
        masks: Masks,
        combine: Unrolled | None,
    ) -> Float[Tensor, "R T D"]:
        """h̃_t, which the output reads: h_t itself without attention."""
        if combine is not None:
            assert context is not None
            h = torch.tanh(combine(torch.cat((context, h), 2)))
        return self.dropout(h, masks.output)


def _mirror(mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S 1"]:
    """Where each position finds its mirror image in its sentence; padding stays in its place."""
    position = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)[..., None]


def _remember(lstm: nn.Module) -> None:
    """Start with the forget gate open (bias 1), so that gradients reach far back (Jozefowicz et al. 2015, §2.2)."""
    for name, parameter in lstm.named_parameters():
        if name.startswith("bias_hh"):
            width = parameter.shape[0] // 4
            with torch.no_grad():
                parameter[width : 2 * width] += 1.0
