"""``heed export --to onnx``."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heed.decoding.search import Hypothesis, Search, token_log_probs
from heed.export import onnx_model, require
from heed.export.description import write_description
from heed.export.parity import CheckSet, ExportedEngine, Report, compare_engines, greedy_hypotheses, require_equal
from heed.files import replacing
from heed.inference.batching import pad
from heed.inference.translator import Translator
from heed.models.transformer import Transformer
from heed.symbols import BOS, EOS


def export(translator: Translator, out: Path, check: CheckSet, *, quantization: None) -> Report:
    """Write ``encoder.onnx`` and ``decoder.onnx`` (`onnx_model`) with the tokenizer.

    Args:
        out: the new folder.

    Raises:
        HeedError: ONNX is not installed, the model is no transformer, or the check fails. Nothing is written.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require(package)
    # The exporter warns of packages and code that heed does not use.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    model = onnx_model.check_supported(translator.model)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as folder:
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            onnx_model.save(folder, model)
        translator.tokenizer.save(folder)
        report = compare_engines(translator, OnnxEngine(folder, model), check)
        require_equal(report)
        write_description(folder, "onnx", translator, check=report.plain())
    return report


class OnnxEngine(ExportedEngine):
    """ONNX Runtime with the two graphs of a model.

    Args:
        model: the exported model, for its sizes.
    """

    def __init__(self, folder: Path, model: Transformer) -> None:
        runtime = require("onnxruntime")
        self.encoder = runtime.InferenceSession(folder / onnx_model.ENCODER)
        self.decoder = runtime.InferenceSession(folder / onnx_model.DECODER)
        self.config, self.max_length = model.config, model.max_target_length

    def search(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        state = self._start(sources)
        limits = [search.limit(len(ids) + 1, self.max_length) for ids in sources]
        tokens = torch.full((len(sources), 1), BOS)
        for _ in range(max(limits)):
            token = token_log_probs(self._step(tokens[:, -1], state)).argmax(1, keepdim=True)
            tokens = torch.cat((tokens, token), 1)
            if (tokens == EOS).any(1).all():
                break
        return greedy_hypotheses(tokens[:, 1:].tolist(), limits)

    def score_ids(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        return [self._score(source, target) for source, target in zip(sources, targets, strict=True)]

    def _score(self, source: Sequence[int], target: Sequence[int]) -> float:
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
