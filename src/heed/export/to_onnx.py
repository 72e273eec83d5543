"""``heed export --to onnx``: the transformer as two ONNX graphs, the encoder and one decoder step with its cache."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heed import kernels
from heed.decoding.search import token_log_probs
from heed.errors import HeedError
from heed.export import require
from heed.export.parity import CheckSet, GreedyEngine, Ids, Report, compare_engines, write_description
from heed.export.weights import layers_of
from heed.inference.engine import pad
from heed.inference.translator import Translator
from heed.layers.attention import KeyValue
from heed.models.transformer import Transformer, TransformerState
from heed.symbols import BOS, EOS

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
OPSET = 18


def export(translator: Translator, out: Path, check: CheckSet, *, quantization: None) -> Report:
    """Write ``encoder.onnx`` and ``decoder.onnx`` with the tokenizer.

    Args:
        out: the new folder.

    Raises:
        HeedError: if ONNX is not installed, the model is not a transformer, or the check fails.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require(package)
    # Silence warnings about packages and code that heed does not use.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    model = translator.model
    if not isinstance(model, Transformer):
        raise HeedError(
            "ONNX export is for transformers only: the graph of an RNN would be valid for a single sentence length."
        )
    out.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _write_graphs(out, model)
    translator.tokenizer.save(out)
    report = compare_engines(translator, OnnxEngine(out, model), check)
    write_description(out, "onnx", translator, check=report.plain())
    return report


class OnnxEncoder(nn.Module):
    """Maps source ids to the keys and values that the decoder layers read."""

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
        # `start` would fix the batch size in the graph, because it takes len() of a tensor.
        layers = [layer.project(states) for layer in layers_of(self.model.decoder)]
        return torch.stack([layer.key for layer in layers]), torch.stack([layer.value for layer in layers])


class OnnxDecoderStep(nn.Module):
    """Computes the next target position."""

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
            memory_key, memory_value: the results of `OnnxEncoder`.
            past_key, past_value: the cache of P positions, "L B Hs P Es"; P = 0 at first.
        """
        layers = tuple(KeyValue(key, value) for key, value in zip(memory_key, memory_value, strict=True))
        past = tuple(KeyValue(key, value) for key, value in zip(past_key, past_value, strict=True))
        state = TransformerState(past, layers, src_mask, past_key.shape[3])
        output, after = self.model.step(tokens, state)
        assert isinstance(after, TransformerState)
        present = [cache for cache in after.past if cache is not None]
        keys, values = (torch.stack([getattr(cache, part) for cache in present]) for part in ("key", "value"))
        return output.logits[:, 0], keys, values


def _write_graphs(folder: Path, model: Transformer) -> None:
    """Write ``encoder.onnx`` and ``decoder.onnx``."""
    B, S, P = (torch.export.Dim(name, min=low) for name, low in (("batch", 1), ("source", 1), ("past", 0)))
    config = model.config
    source = {
        "src": (torch.full((2, 7), 5), {0: B, 1: S}),
        "src_mask": (torch.ones(2, 7, dtype=torch.bool), {0: B, 1: S}),
    }
    past = torch.zeros(config.decoder_layers, 2, config.self_heads, 3, config.self_width)
    with kernels.plain(), torch.no_grad():
        _write_graph(folder / ENCODER, OnnxEncoder(model), source, ("memory_key", "memory_value"))
        key, value = OnnxEncoder(model)(*(tensor for tensor, _ in source.values()))
        inputs = {
            "tokens": (torch.full((2,), BOS), {0: B}),
            "src_mask": source["src_mask"],
            "memory_key": (key, {1: B, 3: S}),
            "memory_value": (value, {1: B, 3: S}),
            "past_key": (past, {1: B, 3: P}),
            "past_value": (past.clone(), {1: B, 3: P}),
        }
        _write_graph(folder / DECODER, OnnxDecoderStep(model), inputs, ("logits", "present_key", "present_value"))


def _write_graph(
    file: Path, module: nn.Module, inputs: dict[str, tuple[Tensor, dict[int, Any]]], outputs: tuple[str, ...]
) -> None:
    """Write a graph. The inputs are example values, with the names of their dynamic axes."""
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


class OnnxEngine(GreedyEngine):
    """Runs the two graphs of a model with ONNX Runtime. The model itself only provides sizes."""

    def __init__(self, folder: Path, model: Transformer) -> None:
        runtime = require("onnxruntime")
        self.encoder = runtime.InferenceSession(folder / ENCODER)
        self.decoder = runtime.InferenceSession(folder / DECODER)
        self.config, self.max_length = model.config, model.max_target_length

    def greedy(self, sources: Sequence[Sequence[int]], limit: int) -> Ids:
        state = self._start(sources)
        tokens = torch.full((len(sources), 1), BOS)
        for _ in range(limit):
            token = token_log_probs(self._step(tokens[:, -1], state)).argmax(1, keepdim=True)
            tokens = torch.cat((tokens, token), 1)
            if (tokens == EOS).any(1).all():
                break
        return tokens[:, 1:].tolist()

    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        state = self._start([source])
        total = 0.0
        for last, token in zip([BOS, *target], [*target, EOS], strict=True):
            total += float(self._step(torch.tensor([last]), state).log_softmax(-1)[0, token])
        return total

    def _start(self, sources: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the inputs of the decoder besides the token."""
        src, mask = (each.numpy() for each in pad([[*ids, EOS] for ids in sources], torch.device("cpu")))
        key, value = self.encoder.run(None, {"src": src, "src_mask": mask})
        layers, heads, width = self.config.decoder_layers, self.config.self_heads, self.config.self_width
        empty = np.zeros((layers, len(sources), heads, 0, width), np.float32)
        return {"src_mask": mask, "memory_key": key, "memory_value": value, "past_key": empty, "past_value": empty}

    def _step(self, tokens: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
        """Return the next logits "B V" and extend the cache in ``state``."""
        logits, state["past_key"], state["past_value"] = self.decoder.run(None, {"tokens": tokens.numpy(), **state})
        return torch.from_numpy(logits)
