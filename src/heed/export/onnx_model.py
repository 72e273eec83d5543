"""The transformer as two ONNX graphs: the encoder, and one decoder step with its cache."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heed import kernels
from heed.errors import HeedError
from heed.export.weights import layers_of
from heed.layers.attention import KeyValue
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer, TransformerState
from heed.symbols import BOS

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
OPSET = 18


def check_supported(model: Seq2Seq) -> Transformer:
    """Return the model if it is a transformer.

    Raises:
        HeedError: it is not.
    """
    if not isinstance(model, Transformer):
        raise HeedError(
            "ONNX export is for transformers: the graph of a recurrent network would hold for one sentence length only."
        )
    return model


class OnnxEncoder(nn.Module):
    """Source ids to the keys and values that the decoder layers read."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, src_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, each "L B H S E".

        Args:
            src: ids with EOS, "B S".
            src_mask: True for tokens, False for padding, "B S".
        """
        states = self.model.encode(src, src_mask).states
        # Not `start`: it takes len() of a tensor, which would fix the batch size in the graph.
        layers = [layer.project(states) for layer in layers_of(self.model.decoder)]
        return torch.stack([layer.key for layer in layers]), torch.stack([layer.value for layer in layers])


class OnnxDecoderStep(nn.Module):
    """The next target position."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Tensor,
        src_mask: Tensor,
        memory_key: Tensor,
        memory_value: Tensor,
        past_key: Tensor,
        past_value: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits "B V", and the cache extended by this position.

        Args:
            tokens: the last target ids, " B"; BOS at first.
            src_mask: see `OnnxEncoder`.
            memory_key, memory_value: what the encoder returned.
            past_key, past_value: the cache of P positions, "L B Hs P Es"; P = 0 at first.
        """
        layers = tuple(KeyValue(key, value) for key, value in zip(memory_key, memory_value, strict=True))
        past = tuple(KeyValue(key, value) for key, value in zip(past_key, past_value, strict=True))
        state = TransformerState(past, layers, src_mask, past_key.shape[3])
        output, state = self.model.step(tokens, state)
        present = [cache for cache in state.past if cache is not None]
        keys, values = (torch.stack([getattr(cache, part) for cache in present]) for part in ("key", "value"))
        return output.logits[:, 0], keys, values


def save(folder: Path, model: Transformer) -> None:
    """Write ``encoder.onnx`` and ``decoder.onnx``.

    Args:
        folder: an existing folder.
    """
    B, S, P = (torch.export.Dim(name, min=low) for name, low in (("batch", 1), ("source", 1), ("past", 0)))
    config = model.config
    source = {
        "src": (torch.full((2, 7), 5), {0: B, 1: S}),
        "src_mask": (torch.ones(2, 7, dtype=torch.bool), {0: B, 1: S}),
    }
    past = torch.zeros(config.decoder_layers, 2, config.self_heads, 3, config.self_width)
    with kernels.plain(), torch.no_grad():
        _export(folder / ENCODER, OnnxEncoder(model), source, ("memory_key", "memory_value"))
        key, value = OnnxEncoder(model)(*(tensor for tensor, _ in source.values()))
        inputs = {
            "tokens": (torch.full((2,), BOS), {0: B}),
            "src_mask": source["src_mask"],
            "memory_key": (key, {1: B, 3: S}),
            "memory_value": (value, {1: B, 3: S}),
            "past_key": (past, {1: B, 3: P}),
            "past_value": (past.clone(), {1: B, 3: P}),
        }
        _export(folder / DECODER, OnnxDecoderStep(model), inputs, ("logits", "present_key", "present_value"))


def _export(
    file: Path, module: nn.Module, inputs: dict[str, tuple[Tensor, dict[int, Any]]], outputs: tuple[str, ...]
) -> None:
    """Write a graph.

    Args:
        inputs: example values, and the names of their dynamic axes.
        outputs: names of the results.
    """
    torch.onnx.export(
        module.eval(),
        kwargs={name: tensor for name, (tensor, _) in inputs.items()},
        f=file,
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_shapes={name: axes for name, (_, axes) in inputs.items()},
        dynamo=True,
        opset_version=OPSET,
        external_data=False,
        verbose=False,
    )
