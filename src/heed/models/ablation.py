"""Switching off parts of a trained transformer, to measure what they contribute."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from heed.errors import HeedError
from heed.layers.attention import Attention
from heed.models.transformer import Transformer


@contextmanager
def heads_off(model: Transformer, heads: Iterable[tuple[str, int, int]]) -> Iterator[None]:
    """Switch off attention heads inside this context.

    ``with heads_off(model, {("cross", 0, 3)}): …`` sets ξ_h = 0 for the fourth head of the cross-attention of the first
    decoder layer (Michel et al. 2019, §2.3): its context is replaced by zeros before W^O. Attention maps do not change.
    Search and scoring use the hooks that do this; search steps are not fused meanwhile.

    Args:
        heads: (attention, layer, head), where attention is encoder_self, decoder_self or cross, as in `AttentionMaps`.
            Layers and heads are counted from 0.

    Raises:
        HeedError: if the model has no such head.
    """
    attentions: dict[str, list[Attention]] = {
        "encoder_self": [layer.self_attention.sublayer.attention for layer in model.encoder],
        "decoder_self": [layer.self_attention.sublayer.attention for layer in model.decoder],
        "cross": [layer.cross_attention.sublayer.attention for layer in model.decoder],
    }
    with ExitStack() as hooks:
        for kind, layer, head in heads:
            layers = attentions.get(kind, [])
            if not (layer in range(len(layers)) and head in range(layers[layer].num_heads)):
                raise HeedError(
                    f"There is no head {kind} {layer} {head} to switch off. This model has "
                    + ", ".join(f"{name}: {len(of)} layers of {of[0].num_heads}" for name, of in attentions.items())
                    + ", counted from 0."
                )
            output = layers[layer].output
            hooks.enter_context(output.register_forward_pre_hook(_zero_head(head, of=layers[layer].num_heads)))
        yield


def _zero_head(head: int, *, of: int) -> Callable[[nn.Module, tuple[Tensor]], Tensor]:
    """Return a forward pre-hook that zeroes one of ``of`` concatenated heads."""
    kept = torch.arange(of) != head

    def hook(output: nn.Module, contexts: tuple[Tensor]) -> Tensor:
        (joined,) = contexts
        return (joined.view(*joined.shape[:-1], of, -1) * kept.to(joined)[:, None]).flatten(-2)

    return hook
