"""The RNN encoder-decoder with attention: what the transformer is compared with (Bahdanau 2015, Luong 2015)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from heed.errors import HeedError
from heed.layers.embedding import TokenEmbedding
from heed.layers.scores import SCORES, Score, build_score, look
from heed.models.seq2seq import AttentionMaps, DecoderOutput, DecoderState, Memory, ModelConfig, Seq2Seq

CELLS: dict[str, tuple[type[nn.RNNBase], type[nn.RNNCellBase]]] = {
    "lstm": (nn.LSTM, nn.LSTMCell),
    "gru": (nn.GRU, nn.GRUCell),
}


@dataclass(frozen=True, kw_only=True)
class AttentionConfig:
    """How the decoder looks at the source: ``score`` none leaves it the encoder's final state alone."""

    score: str
    """dot | scaled_dot | general | concat | additive | none"""
    order: str
    """luong: h_t → c_t → h̃_t (2015, §3.1) | bahdanau: s_{t-1} → c_t → s_t (2015, §3.1)"""
    input_feeding: bool
    """The decoder also reads its last attentional state h̃_{t-1} (Luong et al. 2015, §3.3)."""

    def __post_init__(self) -> None:
        if self.score not in (*SCORES, "none"):
            raise HeedError(
                f"model.attention.score={self.score} is unknown: choose one of {', '.join(SCORES)} or none."
            )
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


@dataclass(frozen=True, kw_only=True)
class RNNConfig(ModelConfig):
    """Every choice about the architecture; conf/model/rnn.yaml gives the reasons."""

    family: ClassVar[str] = "rnn"

    cell: str
    """lstm | gru"""
    d_embedding: int
    d_model: int
    """Width of the decoder's state and of the encoder's: each direction has half of it where there are two."""
    layers: int
    """Of the encoder and of the decoder alike, since each decoder layer starts from its encoder layer."""
    bidirectional: bool
    dropout: float
    tie_embeddings: bool
    """The output layer is the target embedding, and the source embedding too where the vocabulary is joint."""
    attention: AttentionConfig

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise HeedError(f"model.cell={self.cell} is unknown: choose one of {', '.join(CELLS)}.")
        if self.bidirectional and self.d_model % 2:
            raise HeedError(
                f"model.d_model={self.d_model} is odd, but a bidirectional encoder gives each direction half of it."
            )
        if self.layers < 1:
            raise HeedError(f"model.layers={self.layers}: at least 1 is needed.")

    def build(self, *, src_vocab: int, tgt_vocab: int, joint: bool) -> "RNN":
        return RNN(self, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "RNNConfig":
        return cls(**{**data, "attention": AttentionConfig(**data["attention"])})


CellState = tuple[Tensor, ...]
"""One layer's memory, each "R D": (h, c) of an LSTM, (h,) of a GRU."""


@dataclass(frozen=True)
class RNNState(DecoderState):
    """Each layer's memory, what is fed back, and the source with its projected keys."""

    layers: tuple[CellState, ...]
    feed: Float[Tensor, "R D"]
    """h̃_{t-1}, zeros at first (Luong et al. 2015, §3.3)."""
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
            keys=self.keys if same else self.keys[rows],
            memory=self.memory if same else self.memory[rows],
            mask=self.mask if same else self.mask[rows],
            sentence=sentence,
        )


class Encoder(nn.Module):
    """A stack of (bi)directional recurrent layers over the sentences alone, never over their padding."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        recurrent, _ = CELLS[config.cell]
        directions = 2 if config.bidirectional else 1
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            recurrent(  # type: ignore[call-arg]  # RNNBase's own constructor takes the mode first
                input_size=config.d_model if layer else config.d_embedding,
                hidden_size=config.d_model // directions,
                bidirectional=config.bidirectional,
                batch_first=True,
            )
            for layer in range(config.layers)
        )

    def forward(
        self, x: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], tuple[CellState, ...]]:
        """The top layer's states (zeros at padding), and per layer the final state, its directions joined."""
        lengths = mask.sum(1).cpu()  # packing plans its kernels on the host
        finals = []
        for number, layer in enumerate(self.layers):
            packed = pack_padded_sequence(
                self.dropout(x) if number else x, lengths, batch_first=True, enforce_sorted=False
            )
            states, final = layer(packed)
            x, _ = pad_packed_sequence(states, batch_first=True, total_length=mask.shape[1])
            finals.append(
                tuple(part.transpose(0, 1).flatten(1) for part in (final if isinstance(final, tuple) else (final,)))
            )
        return x, tuple(finals)


class RNN(Seq2Seq):
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
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config)

        self.context_first = attention.order == "bahdanau" and attention.score != "none"
        extra = width if attention.input_feeding or self.context_first else 0
        _, cell = CELLS[config.cell]
        self.cells = nn.ModuleList(
            cell(width if layer else config.d_embedding + extra, width)  # type: ignore[call-arg]
            for layer in range(config.layers)
        )
        self.score: Score | None = None
        if attention.score != "none":
            self.score = build_score(attention.score, query_width=width, state_width=width)
            # h̃_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015, eq. 5). In Bahdanau's order, too: a simplification of his
            # maxout layer, which reads s_{t-1}, y_{t-1} and c_t (2015, appendix A.2.2).
            self.combine = nn.Linear(2 * width, width, bias=False)
        # To the width of the output table, which the target embedding may be.
        self.readout = nn.Linear(width, config.d_embedding, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(tgt_vocab))
        for cell_module in self.modules():
            if isinstance(cell_module, nn.LSTM | nn.LSTMCell):
                _remember(cell_module)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        states, finals = self.encoder(self.dropout(self.src_embedding(src)), src_mask)
        return Memory(states, src_mask, final=tuple(part for layer in finals for part in layer))

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        state = self.start(memory)
        embedded = self.dropout(self.tgt_embedding(tgt_in))
        attentional, weights = [], []
        for x in embedded.unbind(1):
            h, weight, state = self._advance(x, state)
            attentional.append(h)
            weights.append(weight)
        return self._output(torch.stack(attentional, 1), weights, maps)

    def start(self, memory: Memory) -> RNNState:
        assert memory.final is not None
        parts = len(memory.final) // self.config.layers
        layers = tuple(memory.final[i : i + parts] for i in range(0, len(memory.final), parts))
        return RNNState(
            layers=layers,
            feed=torch.zeros_like(layers[-1][0]),
            keys=memory.states if self.score is None else self.score.prepare(memory.states),
            memory=memory.states,
            mask=memory.mask,
            sentence=torch.arange(memory.mask.shape[0], device=memory.mask.device),
        )

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, RNNState]:
        assert isinstance(state, RNNState)
        h, weight, state = self._advance(self.dropout(self.tgt_embedding(tokens)), state)
        return self._output(h[:, None], [weight], maps), state

    def _advance(
        self, x: Float[Tensor, "R I"], state: RNNState
    ) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R S"] | None, RNNState]:
        """One token further: what the output reads, where the decoder looked, and the next state."""
        context, weights = None, None
        if self.context_first:
            context, weights = self._look(state.layers[-1][0], state)
            x = torch.cat((x, context), 1)
        elif self.config.attention.input_feeding:
            x = torch.cat((x, state.feed), 1)
        layers: list[CellState] = []
        for cell, before in zip(self.cells, state.layers, strict=True):
            after = cell(self.dropout(x) if layers else x, before if len(before) > 1 else before[0])
            layers.append(after if isinstance(after, tuple) else (after,))
            x = layers[-1][0]
        h = x
        if self.score is not None:
            if context is None:
                context, weights = self._look(h, state)
            h = torch.tanh(self.combine(torch.cat((context, h), 1)))
        h = self.dropout(h)
        return h, weights, replace(state, layers=tuple(layers), feed=h)

    def _look(self, query: Float[Tensor, "R D"], state: RNNState) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R S"]]:
        assert self.score is not None
        context, weights = look(self.score, query[:, None], state.keys, state.memory, state.mask)
        return context.squeeze(1), weights.squeeze(1)

    def _output(
        self, h: Float[Tensor, "R T D"], weights: list[Tensor] | list[Tensor | None], maps: bool
    ) -> DecoderOutput:
        logits = self.output.logits(self.readout(h)) + self.output_bias
        attention = None
        if maps:
            seen = [weight for weight in weights if weight is not None]
            cross = torch.stack(seen, 1)[None, None] if seen else None
            attention = AttentionMaps(cross=cross, encoder_self=None, decoder_self=None)
        return DecoderOutput(logits, attention)


def _remember(lstm: nn.Module) -> None:
    """Start with the forget gate open (bias 1), so that gradients reach far back (Jozefowicz et al. 2015, §2.2)."""
    for name, parameter in lstm.named_parameters():
        if name.startswith("bias_hh"):
            width = parameter.shape[0] // 4
            with torch.no_grad():
                parameter[width : 2 * width] += 1.0
