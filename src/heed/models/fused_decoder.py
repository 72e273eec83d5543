"""A fast path for search steps of the transformer decoder: one function call per layer instead of module calls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed import kernels
from heed.functional.linear import LinearMap
from heed.layers.attention import CrossAttention, KeyValue, MultiHeadAttention, SelfAttention
from heed.layers.feedforward import FeedForward
from heed.layers.linear import Linear
from heed.layers.positions import ABSOLUTE

if TYPE_CHECKING:
    from heed.models.transformer import DecoderLayer, Transformer

Norm = Callable[[Float[Tensor, "R D"]], Float[Tensor, "R D"]]


@dataclass(frozen=True)
class FusedLayer:
    """A `DecoderLayer` for one new position, in the pre-norm order: x + f(norm(x)) for each sublayer f."""

    num_heads: int
    norms: tuple[Norm, Norm, Norm]
    query_key_value: LinearMap
    self_output: LinearMap
    cross_query: LinearMap
    cross_output: LinearMap
    widen: LinearMap
    activation: Callable[[Tensor], Tensor]
    narrow: LinearMap
    scaled: bool
    """Divide the scores of self-attention by √E."""

    @classmethod
    def of(cls, layer: "DecoderLayer") -> "FusedLayer":
        """Return a layer that uses the weights of ``layer``."""
        self_attention = cast(MultiHeadAttention, cast(SelfAttention, layer.self_attention.sublayer).attention)
        cross_attention = cast(MultiHeadAttention, cast(CrossAttention, layer.cross_attention.sublayer).attention)
        feed_forward = cast(FeedForward, layer.feed_forward.sublayer)
        return cls(
            num_heads=self_attention.num_heads,
            norms=(_norm(layer.self_attention.norm), _norm(layer.cross_attention.norm), _norm(layer.feed_forward.norm)),
            query_key_value=_linear(self_attention.query, self_attention.key_value),
            self_output=_linear(self_attention.output),
            cross_query=_linear(cross_attention.query),
            cross_output=_linear(cross_attention.output),
            widen=_linear(feed_forward.widen),
            activation=feed_forward.activation,
            narrow=_linear(feed_forward.narrow),
            scaled=self_attention.scaled,
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
        context, _ = kernels.attend(query, memory.key, memory.value, memory_mask, need_weights=False)
        x = x + self.cross_output(context.transpose(1, 2).reshape(R, D))

        x = x + self.narrow(self.activation(self.widen(before_feed_forward(x))))
        return x, present


@dataclass(frozen=True)
class FusedDecoder:
    """The decoder's layers and its output layer, for one new position of each row, without gradient.

    For a single sentence, the calls of the modules take as long as the matrix products. This class has one call per
    layer, and one product for queries, keys and values. It copies weights, so it is valid for one search only.
    """

    layers: tuple[FusedLayer, ...]
    norm: Norm
    output: LinearMap

    @classmethod
    def of(cls, model: "Transformer") -> "FusedDecoder | None":
        """Return the decoder of ``model``; None for architectures whose search steps are not fused.

        These are post-norm, no norm, no residual connections, and self-attention that is parameter-free or has
        relative positions.
        """
        config = model.config
        is_plain_pre_norm = config.norm == "pre" and config.residual
        is_learned = config.self_attention.kind == "qkv" and config.positions.kind in (*ABSOLUTE, "none")
        if not (is_plain_pre_norm and is_learned):
            return None
        layers = tuple(FusedLayer.of(cast("DecoderLayer", layer)) for layer in model.decoder)
        return cls(layers, _norm(model.decoder_norm), kernels.prepared_linear((model.output.weight, None)))

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


def _linear(*layers: Linear) -> LinearMap:
    return kernels.prepared_linear(*((layer.weight, layer.bias) for layer in layers))


def _norm(module: nn.Module) -> Norm:
    if isinstance(module, nn.LayerNorm):
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module
