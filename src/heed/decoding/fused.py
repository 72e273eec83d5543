"""Fused search steps of the transformer: one function call per decoder layer instead of module calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed import compat, kernels
from heed.functional.linear import LinearMap
from heed.kernels.choice import is_plain
from heed.layers.attention import CrossAttention, KeyValue, MultiHeadAttention, SelfAttention
from heed.layers.embedding import TokenEmbedding
from heed.layers.feedforward import FeedForward
from heed.layers.packed import PackedEmbedding, PackedLinear
from heed.layers.positions import RelativePositions
from heed.layers.residual import Residual
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import DecoderOutput, DecoderState, Memory, Seq2Seq
from heed.models.transformer import DecoderLayer, Transformer, TransformerState, key_mask

Norm = Callable[[Float[Tensor, "R D"]], Float[Tensor, "R D"]]
Prepare = Callable[..., LinearMap]
"""A function with the signature of ``kernels.prepared_linear``."""
ModuleT = TypeVar("ModuleT", bound=nn.Module)


def for_search(model: Seq2Seq, prepare: Prepare = kernels.prepared_linear) -> Seq2Seq:
    """Return a model with the results of ``model`` and faster search steps; ``model`` itself where there are none.

    It copies weights, so it is for one use without gradient: make a new one when weights may have changed.

    Args:
        prepare: makes the products with weights.
    """
    is_fast = not (torch.is_grad_enabled() or torch.is_autocast_enabled(model.device.type) or is_plain())
    fuse = FUSED.get(type(model))
    return fuse(model, prepare) if fuse is not None and is_fast and compat.is_unmodified(model) else model


def _fuse_members(ensemble: Any, prepare: Prepare) -> Ensemble:
    return Ensemble([for_search(member, prepare) for member in ensemble.members])


def _fuse_transformer(model: Any, prepare: Prepare) -> Seq2Seq:
    """Return the model with fused steps, if its decoder consists of unmodified modules in the order that is fused.

    This excludes post-norm, no norm, no residual connections, and self-attention that is parameter-free or has
    relative positions.
    """
    parts = (model.dropout, model.layer_dropout, model.decoder, model.decoder_norm, model.output)
    modules = [module for part in parts for module in part.modules()]
    if not all(compat.is_unmodified(module) and not module.training for module in modules):
        return model
    try:
        return FusedTransformer(model, FusedDecoder.of(model, prepare))
    except _CannotFuseError:
        return model


FUSED: Mapping[type[Seq2Seq], Callable[[Seq2Seq, Prepare], Seq2Seq]] = {
    Transformer: _fuse_transformer,
    Ensemble: _fuse_members,
}
"""For classes of models, the functions that return a model with fused search steps."""


class FusedTransformer(Seq2Seq):
    """A transformer whose search steps are those of a `FusedDecoder`."""

    def __init__(self, model: Transformer, decoder: "FusedDecoder") -> None:
        super().__init__()
        self.model = model
        self.fused = decoder
        self.max_target_length = model.max_target_length

    def encode(
        self,
        src: Int[Tensor, "B S"],
        src_mask: Bool[Tensor, "B S"] | None,
        *,
        src_lengths: Int[Tensor, " B"] | None = None,
        maps: bool = False,
    ) -> Memory:
        return self.model.encode(src, src_mask, src_lengths=src_lengths, maps=maps)

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        return self.model.decode(tgt_in, memory, maps=maps)

    def start(self, memory: Memory) -> TransformerState:
        return self.model.start(memory)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, TransformerState]:
        assert isinstance(state, TransformerState)
        if maps:
            return self.model.step(tokens, state, maps=True)
        x = self.model.tgt_positions(self.model.tgt_embedding(tokens[:, None]), state.length)
        logits, past = self.fused(x.squeeze(1), state.past, state.memory.layers, key_mask(state.memory.mask))
        return DecoderOutput(logits[:, None]), replace(state, past=past, length=state.length + 1)


@dataclass(frozen=True)
class FusedLayer:
    """A `DecoderLayer` for one new position, in the pre-norm order: x + f(norm(x)) for each sublayer f."""

    num_heads: int
    norms: tuple[Norm, Norm, Norm]
    query_key_value: LinearMap
    self_output: LinearMap
    cross_query: LinearMap
    cross_output: LinearMap
    up_projection: LinearMap
    activation: Callable[[Tensor], Tensor]
    down_projection: LinearMap
    scaled: bool
    """Divide the scores of self-attention by √E."""
    cross_scaled: bool
    """Divide the scores of cross-attention by √E."""

    @classmethod
    def of(cls, layer: nn.Module, prepare: Prepare) -> "FusedLayer":
        """Return a layer that uses the weights of ``layer``."""
        layer = _exactly(DecoderLayer, layer)
        self_attention, before_self = _sublayer(layer.self_attention, SelfAttention)
        cross_attention, before_cross = _sublayer(layer.cross_attention, CrossAttention)
        feed_forward, before_feed_forward = _sublayer(layer.feed_forward, FeedForward)
        self_heads, cross_heads = _heads(self_attention.attention), _heads(cross_attention.attention)
        return cls(
            num_heads=self_heads.num_heads,
            norms=(before_self, before_cross, before_feed_forward),
            query_key_value=_linear(prepare, self_heads.query, self_heads.key_value),
            self_output=_linear(prepare, self_heads.output),
            cross_query=_linear(prepare, cross_heads.query),
            cross_output=_linear(prepare, cross_heads.output),
            up_projection=_linear(prepare, feed_forward.up_projection),
            activation=feed_forward.activation,
            down_projection=_linear(prepare, feed_forward.down_projection),
            scaled=self_heads.scaled,
            cross_scaled=cross_heads.scaled,
        )

    def __call__(
        self,
        x: Float[Tensor, "R D"],
        past: KeyValue | None,
        memory: KeyValue,
        memory_mask: Bool[Tensor, "N 1 1 S"] | None,
    ) -> tuple[Float[Tensor, "R D"], KeyValue]:
        """Return the output, and ``past`` extended by the new position. R / N consecutive rows share a sentence."""
        R, D = x.shape
        N, H = len(memory.key), self.num_heads
        before_self, before_cross, before_feed_forward = self.norms

        query, key, value = self.query_key_value(before_self(x)).view(R, 3, H, 1, -1).unbind(1)
        present = KeyValue(key, value) if past is None else past.append(KeyValue(key, value))
        context, _ = kernels.attend(query, present.key, present.value, None, scaled=self.scaled, need_weights=False)
        x = x + self.self_output(context.reshape(R, D))

        # The queries of a sentence's hypotheses become one sequence of queries.
        query = self.cross_query(before_cross(x)).view(N, -1, H, D // H).transpose(1, 2)
        context, _ = kernels.attend(
            query, memory.key, memory.value, memory_mask, scaled=self.cross_scaled, need_weights=False
        )
        x = x + self.cross_output(context.transpose(1, 2).reshape(R, D))

        x = x + self.down_projection(self.activation(self.up_projection(before_feed_forward(x))))
        return x, present


@dataclass(frozen=True)
class FusedDecoder:
    """The decoder's layers and its output layer, for one new position of each row, without gradient.

    For a single sentence, the calls of the modules take as long as the matrix products. This class has one call per
    layer, and one product for queries, keys and values.
    """

    layers: tuple[FusedLayer, ...]
    norm: Norm
    output: LinearMap

    @classmethod
    def of(cls, model: Transformer, prepare: Prepare) -> "FusedDecoder":
        """Return the decoder of ``model``."""
        if type(model.output) not in (TokenEmbedding, PackedEmbedding):
            raise _CannotFuseError
        layers = tuple(FusedLayer.of(layer, prepare) for layer in model.decoder)
        return cls(layers, _norm(model.decoder_norm), prepare((model.output.weight, None)))

    def __call__(
        self,
        x: Float[Tensor, "R D"],
        past: Sequence[KeyValue | None],
        memory: Sequence[KeyValue],
        memory_mask: Bool[Tensor, "N 1 1 S"] | None,
    ) -> tuple[Float[Tensor, "R V"], tuple[KeyValue, ...]]:
        """Return the logits after the embedded new position ``x``, and each layer's ``past`` extended by it."""
        caches = []
        for layer, cache, source in zip(self.layers, past, memory, strict=True):
            x, present = layer(x, cache, source, memory_mask)
            caches.append(present)
        return self.output(self.norm(x)), tuple(caches)


class _CannotFuseError(Exception):
    """A module of the decoder is not the one that is fused."""


def _exactly(cls: type[ModuleT], module: nn.Module) -> ModuleT:
    if type(module) is not cls:
        raise _CannotFuseError
    return module


def _sublayer(residual: nn.Module, cls: type[ModuleT]) -> tuple[ModuleT, Norm]:
    """Return the sublayer of a residual connection in the pre-norm order, and the norm before it."""
    residual = _exactly(Residual, residual)
    if not (residual.pre_norm and residual.add):
        raise _CannotFuseError
    return _exactly(cls, residual.sublayer), _norm(residual.norm)


def _heads(attention: nn.Module) -> MultiHeadAttention:
    heads = _exactly(MultiHeadAttention, attention)
    _exactly(RelativePositions, heads.positions)
    return heads


def _linear(prepare: Prepare, *layers: nn.Linear) -> LinearMap:
    if any(type(layer) not in (nn.Linear, PackedLinear) for layer in layers):
        raise _CannotFuseError
    return prepare(*((layer.weight, layer.bias) for layer in layers))


def _norm(module: nn.Module) -> Norm:
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module
