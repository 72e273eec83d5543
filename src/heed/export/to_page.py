"""``heed export --to page``: one HTML file in which the browser itself computes the model."""

import base64
import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece as spm
import torch

from heed.decoding import Hypothesis, Search
from heed.errors import HeedError
from heed.export.parity import CheckSet, ExportedEngine, Report, compare_engines
from heed.export.weights import require_transformer
from heed.inference.engine import TorchEngine, log_probs
from heed.inference.languages import language_name
from heed.inference.searches import LENGTH_LIMITS
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.plot.attention_map import TITLES
from heed.report.pages import render_template
from heed.symbols import EOS

EXAMPLES, EXAMPLE_WORDS = 12, range(6, 13)
"""The number of example sentences, and their length in words if the set has such sentences."""

PROBE = "  Xﬁ№\u00a0 y "
"""A text that every rule of normalization but identity changes further than to "▁Xﬁ№\u00a0▁y"."""


def export(translator: Translator, out: Path, check: CheckSet | None, *, quantization: str | None) -> Report | None:
    """Write the page.

    Args:
        out: the new file.
        check: sentences for the comparison; some become the examples of the page. None: there are none.
        quantization: "float32", or None for int8 with a scale for each row of a matrix.

    Returns:
        The comparison of the model with the weights in the page. heed computes both.

    Raises:
        HeedError: if the page cannot compute the model exactly, or the check fails.
    """
    model, tokenizer = check_supported(translator.model), translator.tokenizer
    if tokenizer.tags:
        raise HeedError("The page cannot choose between the target languages of this model: train one per direction.")
    source, target = map(tokenizer_data, tokenizer.processors)
    config, codes = model.config, (translator.src_lang, translator.tgt_lang)
    tensors, weights = encode_weights(model, is_exact=quantization is not None)
    data = {
        "codes": codes,
        "languages": [language_name(code) or side for code, side in zip(codes, ("source", "target"), strict=True)],
        "config": {
            "num_heads": config.num_heads,
            "norm": config.norm,
            "scaled": {
                "self": config.self_attention.score == "scaled_dot",
                "cross": config.cross_attention.score == "scaled_dot",
            },
        },
        "limits": {name.removeprefix("max_length_"): getattr(translator.search, name) for name in LENGTH_LIMITS},
        "source": source,
        "target": None if tokenizer.joint else target,
        "examples": choose_examples(check.sources) if check else [],
        "titles": {kind: title for kind, (title, _) in TITLES.items()},
        "tensors": tensors,
        "weights": base64.b64encode(weights).decode(),
    }
    out.write_text(render_template("page.html.j2", folder=Path(__file__).parent / "page", data=data), encoding="utf-8")
    if check is None:
        return None
    report = compare_engines(translator, PageEngine(out, model), check, is_exact=quantization is not None)
    return replace(report, sentences_per_second={})


def check_supported(model: Seq2Seq) -> Transformer:
    """Return the model if the page computes it exactly; otherwise raise a HeedError naming the missing parts."""

    def lacks(config: TransformerConfig) -> dict[str, bool]:
        positions = (config.positions.kind, config.positions.merge)
        return {
            f"{config.norm_kind} norm (model.norm_kind={config.norm_kind})": config.norm_kind != "layer",
            f"activation but ReLU (model.activation={config.activation})": config.activation != "relu",
            f"positions but added sinusoids (model.positions.kind={positions[0]})": positions != ("sinusoidal", "add"),
        }

    return require_transformer(model, "The page", lacks)


def tokenizer_data(processor: spm.SentencePieceProcessor) -> dict[str, Any]:
    """Return the pieces of a BPE tokenizer, their scores, and their types as a digit each (SentencePiece's numbers).

    Raises:
        HeedError: if it is a unigram model, or it normalizes text.
    """
    ids = range(processor.get_piece_size())
    scores = [processor.get_score(piece) for piece in ids]
    if any(score % 1 for score in scores):
        raise HeedError("The page cannot segment text by a unigram model: train with tokenizer.kind=bpe.")
    if processor.normalize(PROBE) != f"▁{PROBE.strip(' ').replace(' y', '▁y')}":
        raise HeedError("The page cannot normalize text as this tokenizer does: use tokenizer.normalization=identity.")
    kinds = ((processor.is_unknown, "2"), (processor.is_control, "3"), (processor.is_byte, "6"))
    types = [next((digit for is_kind, digit in kinds if is_kind(piece)), "1") for piece in ids]
    return {"pieces": [processor.id_to_piece(piece) for piece in ids], "scores": scores, "types": "".join(types)}


def choose_examples(sentences: Sequence[str]) -> list[str]:
    """Return sentences of convenient length, or else the first ones."""
    return ([line for line in sentences if len(line.split()) in EXAMPLE_WORDS] or [*sentences])[:EXAMPLES]


def encode_weights(model: Transformer, *, is_exact: bool) -> tuple[list[tuple[str, list[int], str]], bytes]:
    """Return the name, shape and type of each weight, and the bytes of all weights.

    A matrix of type int8 is written as a float32 scale for each row, followed by round(W / scale). Other weights are
    float32. Tied weights are written once.
    """
    tensors, parts = [], []
    for name, weight in model.named_parameters():
        values = weight.detach().numpy().astype("<f4")
        is_rounded = values.ndim == 2 and not is_exact
        if is_rounded:
            scale = (np.abs(values).max(1, keepdims=True) / 127).clip(1e-30)
            parts.append(scale.tobytes())
            values = (values / scale).round().astype(np.int8)
        parts.append(values.tobytes())
        short = name.replace(".sublayer", "").replace(".attention", "")
        tensors.append((short, [*weight.shape], "int8" if is_rounded else "float32"))
    return tensors, b"".join(parts)


def read_weights(page: Path) -> list[torch.Tensor]:
    """Return the weights in the page, in the order of the model's parameters."""
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    rest = memoryview(base64.b64decode(data["weights"]))
    weights = []
    for _, shape, kind in data["tensors"]:
        rows, size = (shape[0], int(np.prod(shape)))
        scale = 1.0
        if kind == "int8":
            scale, rest = np.frombuffer(rest[: 4 * rows], "<f4")[:, None], rest[4 * rows :]
        dtype = np.dtype(np.int8 if kind == "int8" else "<f4")
        values, rest = np.frombuffer(rest[: size * dtype.itemsize], dtype), rest[size * dtype.itemsize :]
        weights.append(torch.from_numpy((values.reshape(shape) * scale).astype(np.float32)))
    return weights


class PageEngine(ExportedEngine):
    """heed's own computation with the weights in a page."""

    def __init__(self, page: Path, model: Transformer) -> None:
        self.model = deepcopy(model).eval()
        with torch.no_grad():
            for parameter, weight in zip(self.model.parameters(), read_weights(page), strict=True):
                parameter.copy_(weight)

    def search(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        return TorchEngine(self.model).search(sources, search)

    @torch.inference_mode()
    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        return log_probs(self.model, [[*source, EOS]], [[*target, EOS]])[0]
