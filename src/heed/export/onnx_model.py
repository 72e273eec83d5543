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
from heed.models.transformer import ProjectedMemory, Transformer, TransformerState
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


class Encoder(nn.Module):
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


class DecoderStep(nn.Module):
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
            src_mask: see `Encoder`.
            memory_key, memory_value: what the encoder returned.
            past_key, past_value: the cache of P positions, "L B Hs P Es"; P = 0 at first.
        """
        layers = tuple(KeyValue(key, value) for key, value in zip(memory_key, memory_value, strict=True))
        past = tuple(KeyValue(key, value) for key, value in zip(past_key, past_value, strict=True))
        state = TransformerState(past, ProjectedMemory(layers, src_mask), past_key.shape[3])
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
    src, mask = torch.full((2, 7), 5), torch.ones(2, 7, dtype=torch.bool)
    config = model.config
    past = torch.zeros(config.decoder_layers, 2, config.self_heads, 3, config.self_width)
    with kernels.plain(), torch.no_grad():
        _export(
            folder / ENCODER,
            Encoder(model),
            {"src": src, "src_mask": mask},
            ("memory_key", "memory_value"),
            {"src": {0: B, 1: S}, "src_mask": {0: B, 1: S}},
        )
        key, value = Encoder(model)(src, mask)
        memory, cache = {1: B, 3: S}, {1: B, 3: P}
        _export(
            folder / DECODER,
            DecoderStep(model),
            {
                "tokens": torch.full((2,), BOS),
                "src_mask": mask,
                "memory_key": key,
                "memory_value": value,
                "past_key": past,
                "past_value": past.clone(),
            },
            ("logits", "present_key", "present_value"),
            {
                "tokens": {0: B},
                "src_mask": {0: B, 1: S},
                "memory_key": memory,
                "memory_value": memory,
                "past_key": cache,
                "past_value": cache,
            },
        )


def _export(
    file: Path, module: nn.Module, inputs: dict[str, Tensor], outputs: tuple[str, ...], shapes: dict[str, Any]
) -> None:
    torch.onnx.export(
        module.eval(),
        kwargs=inputs,
        f=file,
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_shapes=shapes,
        dynamo=True,
        opset_version=OPSET,
        external_data=False,
        verbose=False,
    )
