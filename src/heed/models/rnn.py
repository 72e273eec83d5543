"""The RNN encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015)."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed import kernels
from heed.functional.linear import LinearMap
from heed.functional.recurrence import CELLS, CellState
from heed.layers.attention_scores import SCORES, ScoreOptions, SourceMask
from heed.layers.dropout import Dropout
from heed.layers.edits import Edits, check_edits, layer_edits
from heed.layers.embedding import embeddings
from heed.layers.reach import REACHES
from heed.layers.recurrence import RecurrentLayer
from heed.models.rnn_config import AttentionConfig, RNNConfig
from heed.models.seq2seq import (
    AttentionMaps,
    DecoderHidden,
    DecoderState,
    Lengths,
    Memory,
    SrcIds,
    Stack,
    TrainableSeq2Seq,
)

Hidden = Float[Tensor, "R T D"]


class Encoder(nn.Module):
    """A stack of recurrent layers in one direction or two, over sentences without their padding."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        directions = 2 if config.bidirectional else 1
        self.reverse_source = config.reverse_source
        self.residual = config.residual
        self.dropout = Dropout(config.dropout)
        self.layers = Stack(
            Stack(
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
        self, x: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None
    ) -> tuple[Float[Tensor, "B S D"], tuple[CellState, ...]]:
        """Return the top layer's states (zeros at padding), and each layer's final state, directions concatenated.

        The states are in the order of the source, whatever the direction of reading.
        """
        if lengths is None:
            lengths = mask.sum(1).cpu()  # torch's packing needs them there
        reversal = _reversal(mask)
        finals = []
        for number, directions in enumerate(self.layers):
            below = x
            x = self.dropout(x)
            outputs, ends = [], []
            for is_backward, layer in enumerate(directions, start=self.reverse_source):
                inputs = x.take_along_dim(reversal, 1) if is_backward else x
                out, end = layer(inputs, layer.initial_state(len(x)), lengths=lengths)
                outputs.append(out.take_along_dim(reversal, 1) if is_backward else out)
                ends.append(end)
            x = torch.cat(outputs, 2)
            if self.residual and number:
                x = below + x
            finals.append(tuple(torch.cat(parts, 1) for parts in zip(*ends, strict=True)))
        return x, tuple(finals)


@dataclass(frozen=True)
class SourceMemory:
    """The source as attention reads it, one row per hypothesis."""

    keys: Float[Tensor, "R S A"]  # what the score function computes from the states once
    states: Float[Tensor, "R S D"]
    mask: Bool[Tensor, "R S"]

    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None) -> "SourceMemory":
        """Return the source of the given rows."""
        if sentences is None and len(rows) == len(self.mask):
            # Hypotheses change places within their sentences only, the most frequent case: nothing to copy.
            return self
        return SourceMemory(self.keys[rows], self.states[rows], self.mask[rows])


class SourceAttention(nn.Module):
    """Attention of decoder states to the source, c_t = Σ_s a_t(s) h_s, with any score function and reach."""

    def __init__(self, config: AttentionConfig, *, width: int) -> None:
        super().__init__()
        self.uses_coverage = config.coverage
        self.score = SCORES[config.score](
            ScoreOptions(query_width=width, state_width=width, max_source=config.max_source, coverage=config.coverage)
        )
        self.reach = REACHES[config.reach](query_width=width, window=config.window)

    def forward(
        self,
        query: Float[Tensor, "R T D"],
        source: SourceMemory,
        coverage: Float[Tensor, "R S"],
        start: int,
        edits: Edits = None,
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R T S"]]:
        """Return the contexts c_t and the weights a_t.

        Args:
            query: the decoder states of the T target positions from ``start`` on.
            coverage: the sum of the weights at all earlier positions.
        """
        scores = self.score(query, source.keys, coverage[:, None] if self.uses_coverage else None)
        weights = self.reach(scores, query, source.mask, start)
        if edit := layer_edits(edits, 0, start, query.shape[1]).get("cross"):
            weights = edit(weights[:, None], source.mask[:, None, None])[:, 0]
        return weights @ source.states, weights


@dataclass(frozen=True)
class RNNState(DecoderState):
    """The state of each decoder layer, the attentional state for input feeding, the coverage, and the source."""

    layers: tuple[CellState, ...]
    input_feed: Float[Tensor, "R D"]  # h̃_{t-1}, zeros at first (Luong et al. 2015, §3.3)
    coverage: Float[Tensor, "R S"]  # the sum of the attention weights so far
    length: int
    source: SourceMemory

    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None = None) -> "RNNState":
        return replace(
            self,
            layers=tuple(tuple(part[rows] for part in layer) for layer in self.layers),
            input_feed=self.input_feed[rows],
            coverage=self.coverage[rows],
            source=self.source.reorder(rows, sentences),
        )


class RNN(TrainableSeq2Seq):
    """A recurrent encoder, and a recurrent decoder with attention to the encoder's states."""

    config: RNNConfig

    def __init__(self, config: RNNConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> None:
        super().__init__()
        self.config = config
        attention, width = config.attention, config.d_model
        self.tgt_embedding, self.src_embedding, self.output = embeddings(
            src_vocab=src_vocab, tgt_vocab=tgt_vocab, d_model=config.d_embedding, joint=joint, tie=config.tie_embeddings
        )
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Stack(
            RecurrentLayer(config.cell, input_width=width if layer else config.d_embedding, width=width)
            for layer in range(config.layers)
        )
        self.context_gates: nn.Linear | None = None
        if attention.input_feeding or attention.is_bahdanau:
            # The first layer reads [E y; h̃_{t-1}] or [E y; c_t]. Its input matrix is split into two, so that the part
            # for the embeddings can be applied to all positions at once.
            self.context_gates = nn.Linear(width, CELLS[config.cell].gates * width, bias=False)
        self.attention: SourceAttention | None = None
        if attention.score != "none":
            self.attention = SourceAttention(attention, width=width)
            self.attention_heads = {"cross": (1, 1)}
            # W_c in h̃_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015, eq. 5). Also in Bahdanau's order, to
            # simplify the maxout layer, which reads s_{t-1}, y_{t-1} and c_t (Bahdanau et al. 2015, appendix A.2.2).
            self.combine = nn.Linear(2 * width, width, bias=False)
        self.readout = nn.Linear(width, config.d_embedding, bias=False)
        """To the width of the output layer, which may be the target embedding."""
        self.output_bias = nn.Parameter(torch.zeros(tgt_vocab))

    def encode(
        self, src: SrcIds, src_mask: SourceMask, *, src_lengths: Lengths = None, maps: bool = False, edits: Edits = None
    ) -> Memory:
        check_edits(edits, self.attention_heads)
        if src_mask is None:
            src_mask = torch.ones_like(src, dtype=torch.bool)
        states, finals = self.encoder(self.src_embedding(src), src_mask, src_lengths)
        return Memory(states, src_mask, final=tuple(part for layer in finals for part in layer))

    def start(self, memory: Memory) -> RNNState:
        assert memory.final is not None
        assert memory.mask is not None
        parts = len(memory.final) // self.config.layers
        layers = tuple(memory.final[i : i + parts] for i in range(0, len(memory.final), parts))
        keys = memory.states if self.attention is None else self.attention.score.project(memory.states, memory.mask)
        return RNNState(
            layers=layers,
            input_feed=torch.zeros_like(layers[-1][0]),
            coverage=torch.zeros_like(memory.states[..., 0]),
            length=0,
            source=SourceMemory(keys, memory.states, memory.mask),
        )

    def run_decoder(
        self, tokens: Int[Tensor, "R T"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderHidden, AttentionMaps | None, RNNState]:
        assert isinstance(state, RNNState)
        check_edits(edits, self.attention_heads)
        x = self.dropout(self.tgt_embedding(tokens))
        run = self._run_steps if self.config.attention.needs_steps else self._run_at_once
        h, weights, state = run(x, state, edits)
        hidden = DecoderHidden(self.readout(h), self.output.weight, self.output_bias)
        attention = AttentionMaps(cross=None if weights is None else weights[None, None]) if maps else None
        return hidden, attention, state

    def _run_at_once(
        self, x: Float[Tensor, "R T I"], state: RNNState, edits: Edits
    ) -> tuple[Hidden, Float[Tensor, "R T S"] | None, RNNState]:
        """Run the cells on all positions, then attend from all of them. No step depends on earlier attention."""
        h, first = self.decoder[0](x, state.layers[0])
        h, layers = self._run_upper_layers(h, first, state)
        weights = None
        if self.attention is not None:
            context, weights = self.attention(h, state.source, state.coverage, state.length, edits)
            h = self._attentional(context, h, kernels.repeated_linear(self.combine.weight))
        h = self.dropout(h)
        return h, weights, replace(state, layers=layers, length=state.length + x.shape[1])

    def _run_steps(
        self, x: Float[Tensor, "R T I"], state: RNNState, edits: Edits
    ) -> tuple[Hidden, Float[Tensor, "R T S"], RNNState]:
        """Run the decoder position by position, where a step depends on the attention of the step before."""
        assert self.attention is not None
        hidden_gates, combine = self.decoder[0].hidden_gates(), kernels.repeated_linear(self.combine.weight)
        context_gates = None if self.context_gates is None else kernels.repeated_linear(self.context_gates.weight)
        attentional, all_weights = [], []
        for gates in self.decoder[0].input_gates(x).unbind(1):
            past = (state.source, state.coverage, state.length, edits)
            read = state.input_feed  # h_{t-1} → h_t → c_t
            if self.config.attention.is_bahdanau:  # s_{t-1} → c_t → s_t
                context, weights = self.attention(state.layers[-1][0][:, None], *past)
                read = context.squeeze(1)
            if context_gates is not None:
                gates = gates + context_gates(read)
            first = self.decoder[0].step(gates, state.layers[0], hidden_gates)
            h, layers = self._run_upper_layers(first[0][:, None], first, state)
            if not self.config.attention.is_bahdanau:
                context, weights = self.attention(h, *past)
            h = self.dropout(self._attentional(context, h, combine))
            attentional.append(h)
            all_weights.append(weights)
            coverage = state.coverage + weights.squeeze(1)
            state = replace(state, layers=layers, input_feed=h.squeeze(1), coverage=coverage, length=state.length + 1)
        return torch.cat(attentional, 1), torch.cat(all_weights, 1), state

    def _run_upper_layers(self, h: Hidden, first: CellState, state: RNNState) -> tuple[Hidden, tuple[CellState, ...]]:
        """Run all layers but the first; return the output of the top layer and the states of all layers."""
        layers = [first]
        for number in range(1, self.config.layers):
            out, after = self.decoder[number](self.dropout(h), state.layers[number])
            h = h + out if self.config.residual else out
            layers.append(after)
        return h, tuple(layers)

    def _attentional(self, context: Hidden, h: Hidden, combine: LinearMap) -> Hidden:
        """Return h̃_t = tanh(W_c [c_t; h_t]) (Luong et al. 2015, eq. 5)."""
        return torch.tanh(combine(torch.cat((context, h), 2)))


def _reversal(mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S 1"]:
    """Return the indices that reverse each sentence and leave its padding in place."""
    position = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)[..., None]
