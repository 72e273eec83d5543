"""A decoder layer of the transformer for search: few function calls instead of many module calls."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from heed import kernels
from heed.functional.linear import LinearMap, Prepare
from heed.layers.attention import KeyValue, MultiHeadAttention
from heed.layers.attention_scores import DotScore
from heed.layers.residual import CrossAttentionBlock, FeedForwardBlock, Residual, SelfAttentionBlock

Norm = Callable[[Float[Tensor, "R D"]], Float[Tensor, "R D"]]


class FusedLayer:
    """A decoder layer for one new position: x + f(norm(x)) or, in the post-norm order, norm(x + f(x)) per sublayer f.

    ``prepare`` returns the functions that multiply by the weights of the sublayers.
    """

    def __init__(
        self,
        self_attention: SelfAttentionBlock,
        cross_attention: CrossAttentionBlock,
        feed_forward: FeedForwardBlock,
        prepare: Prepare,
    ) -> None:
        def linear(*layers: nn.Linear) -> LinearMap:
            return prepare(*((each.weight, each.bias) for each in layers))

        self_heads, cross_heads = self_attention.sublayer.attention, cross_attention.sublayer.attention
        assert isinstance(self_heads, MultiHeadAttention)
        assert isinstance(cross_heads, MultiHeadAttention)
        assert isinstance(self_heads.score, DotScore)
        assert isinstance(cross_heads.score, DotScore)
        self.num_heads = self_heads.num_heads
        self.scaled, self.cross_scaled = self_heads.score.scaled, cross_heads.score.scaled
        blocks: tuple[Residual[Any], ...] = (self_attention, cross_attention, feed_forward)
        norms = [(fused_norm(each.norm), _identity) for each in blocks]
        self.norms = [pair if each.pre_norm else pair[::-1] for pair, each in zip(norms, blocks, strict=True)]
        self.query_key_value = linear(self_heads.query, self_heads.key_value)
        self.self_output = linear(self_heads.output)
        self.cross_query, self.cross_output = linear(cross_heads.query), linear(cross_heads.output)
        self.up_projection = linear(feed_forward.sublayer.up_projection)
        self.down_projection = linear(feed_forward.sublayer.down_projection)
        self.activation = feed_forward.sublayer.activation

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
        (before_self, after_self), (before_cross, after_cross), (before_forward, after_forward) = self.norms

        query, key, value = self.query_key_value(before_self(x)).view(R, 3, H, 1, -1).unbind(1)
        present = KeyValue(key, value) if past is None else past.append(KeyValue(key, value))
        context, _ = kernels.attend(query, present.key, present.value, None, scaled=self.scaled, need_weights=False)
        x = after_self(x + self.self_output(context.reshape(R, D)))

        # The queries of a sentence's hypotheses become one sequence of queries.
        query = self.cross_query(before_cross(x)).view(N, -1, H, D // H).transpose(1, 2)
        context, _ = kernels.attend(
            query, memory.key, memory.value, memory_mask, scaled=self.cross_scaled, need_weights=False
        )
        x = after_cross(x + self.cross_output(context.transpose(1, 2).reshape(R, D)))

        update = self.down_projection(self.activation(self.up_projection(before_forward(x))))
        return after_forward(x + update), present


def _identity(x: Float[Tensor, "R D"]) -> Float[Tensor, "R D"]:
    return x


def fused_norm(module: nn.Module) -> Norm:
    """Return the function that a norm computes."""
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module.forward  # an attribute that is a module would become part of the model
