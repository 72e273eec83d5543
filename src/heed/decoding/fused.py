"""Fused search steps of the transformer: one function call per decoder layer instead of module calls."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from heed import compat, kernels
from heed.functional.linear import LinearMap
from heed.kernels.choice import is_plain
from heed.layers.attention import PRODUCTS, KeyValue, MultiHeadAttention
from heed.layers.attention_scores import DotScore
from heed.layers.edits import Edits
from heed.layers.positions import RELATIVE
from heed.layers.residual import Residual
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import DecoderOutput, DecoderState, Memory, Seq2Seq
from heed.models.transformer import DecoderLayer, Transformer, TransformerState, key_mask
from heed.models.transformer_config import TransformerConfig

Norm = Callable[[Float[Tensor, "R D"]], Float[Tensor, "R D"]]
Prepare = Callable[..., LinearMap]  # a function with the signature of ``kernels.prepared_linear``


def for_search(model: Seq2Seq, prepare: Prepare = kernels.prepared_linear) -> Seq2Seq:
    """Return a model with equal results and faster search steps, or ``model`` itself if it cannot be fused.

    The result holds copies of weights. Use it without gradient, and create a new one after weights have changed.

    Args:
        prepare: returns the function that multiplies by given weights.
    """
    if torch.is_grad_enabled() or torch.is_autocast_enabled(model.device.type) or is_plain():
        return model
    if not compat.is_unmodified(model):
        return model
    if isinstance(model, Ensemble):
        return Ensemble([for_search(member, prepare) for member in model.members])
    return FusedTransformer(model, prepare) if type(model) is Transformer and _can_fuse(model) else model


def _can_fuse(model: Transformer) -> bool:
    """Return whether the decoder has the layer order and module classes that `FusedLayer` implements.

    This excludes post-norm, no norm, no residual connections, and self-attention that is parameter-free or has
    relative positions.
    """
    config = model.config
    if config.self_attention.kind != "qkv" or config.positions.kind in RELATIVE:
        return False
    if not {config.self_attention.score, config.cross_attention.score} <= {*PRODUCTS}:
        return False
    used = [model.dropout, model.layer_dropout, *model.decoder.modules(), model.decoder_norm, model.output]
    return (
        all(compat.is_unmodified(module) and not module.training for module in used)
        and all(_classes(layer) == _classes_of_new_layer(config) for layer in model.decoder)
        and all(module.pre_norm and module.add for module in used if isinstance(module, Residual))
        and type(model.output) is type(model.tgt_embedding)
    )


def _classes(layer: nn.Module) -> dict[str, type[nn.Module]]:
    """Return the classes of a layer's modules by their names."""
    return {name: type(module) for name, module in layer.named_modules(remove_duplicate=False)}


@cache
def _classes_of_new_layer(config: TransformerConfig) -> dict[str, type[nn.Module]]:
    with torch.device("meta"):
        return _classes(DecoderLayer(config))


class FusedTransformer(Transformer):
    """A transformer that shares all modules with ``model`` and has fused search steps, without gradient.

    For a single sentence, calling the modules takes as long as the matrix products. A fused step has one call per
    layer, and one product for queries, keys and values.
    """

    def __init__(self, model: Transformer, prepare: Prepare) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(vars(model))
        self.fused_layers = tuple(FusedLayer(layer, prepare) for layer in model.decoder)
        self.fused_norm = _norm(model.decoder_norm)
        self.fused_output = prepare((model.output.weight, None))

    def start(self, memory: Memory) -> TransformerState:
        state = super().start(memory)
        # Make each head contiguous once, because every step reads the keys and values of the source.
        layers = tuple(KeyValue(layer.key.contiguous(), layer.value.contiguous()) for layer in state.memory)
        return replace(state, memory=layers)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False, edits: Edits = None
    ) -> tuple[DecoderOutput, DecoderState]:
        if maps or edits:
            return super().step(tokens, state, maps=maps, edits=edits)
        assert isinstance(state, TransformerState)
        x = self.tgt_positions(self.tgt_embedding(tokens[:, None]), state.length).squeeze(1)
        memory_mask = key_mask(state.memory_mask)
        caches = []
        for layer, past, memory in zip(self.fused_layers, state.past, state.memory, strict=True):
            x, present = layer(x, past, memory, memory_mask)
            caches.append(present)
        logits = self.fused_output(self.fused_norm(x))[:, None]
        return DecoderOutput(logits), replace(state, past=tuple(caches), length=state.length + 1)


class FusedLayer:
    """A `DecoderLayer` for one new position, in the pre-norm order: x + f(norm(x)) for each sublayer f.

    ``prepare`` returns the functions that multiply by the weights of ``layer``.
    """

    def __init__(self, layer: DecoderLayer, prepare: Prepare) -> None:
        def linear(*layers: nn.Linear) -> LinearMap:
            return prepare(*((each.weight, each.bias) for each in layers))

        self_heads = layer.self_attention.sublayer.attention
        cross_heads = layer.cross_attention.sublayer.attention
        assert isinstance(self_heads, MultiHeadAttention)
        assert isinstance(cross_heads, MultiHeadAttention)
        feed_forward = layer.feed_forward.sublayer
        self.num_heads = self_heads.num_heads
        assert isinstance(self_heads.score, DotScore)
        assert isinstance(cross_heads.score, DotScore)
        self.scaled, self.cross_scaled = self_heads.score.scaled, cross_heads.score.scaled
        self.norms = [_norm(each.norm) for each in (layer.self_attention, layer.cross_attention, layer.feed_forward)]
        self.query_key_value = linear(self_heads.query, self_heads.key_value)
        self.self_output = linear(self_heads.output)
        self.cross_query, self.cross_output = linear(cross_heads.query), linear(cross_heads.output)
        self.up_projection = linear(feed_forward.up_projection)
        self.down_projection = linear(feed_forward.down_projection)
        self.activation = feed_forward.activation

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


def _norm(module: nn.Module) -> Norm:
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    return module.forward  # an attribute that is a module would become part of the model
