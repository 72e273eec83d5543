"""Activation checkpointing: less memory for more computation (Chen et al. 2016)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from heed.errors import HeedError
from heed.models.transformer import DecoderLayer, EncoderLayer


def checkpoint_layers(model: nn.Module) -> None:
    """Let the layers of a transformer keep only their inputs, and compute the rest again in the backward pass.

    The loss and the gradients stay the same, bit for bit, because dropout is repeated with the same random numbers.

    Raises:
        HeedError: if the model is no transformer.
    """
    layers = [module for module in model.modules() if isinstance(module, (EncoderLayer, DecoderLayer))]
    if not layers:
        raise HeedError("module.activation_checkpointing=true is for transformers: leave it out.")
    for layer in layers:
        layer.forward = partial(_with_checkpoint, layer.forward)  # type: ignore[method-assign]


def _with_checkpoint(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)
