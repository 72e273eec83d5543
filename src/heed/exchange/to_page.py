"""``heed export --to page``: one HTML file in which the browser itself computes the model."""

import base64
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece as spm
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from heed.data.pairs.tokenizer import vocabulary_size
from heed.errors import HeedError
from heed.exchange.parity import CheckSet, ExportedEngine, ParityReport, compare_engines
from heed.exchange.weights import common_gaps, refuse, require_transformer
from heed.inference.engine import TorchEngine, log_probs
from heed.inference.searches import LENGTH_LIMITS
from heed.inference.translator import Translator
from heed.languages import language_name
from heed.models.rnn import RNN
from heed.models.seq2seq import Seq2Seq
from heed.plot.attention_map import TITLES
from heed.report.pages import render_template
from heed.symbols import EOS

EXAMPLES, EXAMPLE_WORDS = 12, range(6, 13)
"""The number of example sentences, and their length in words if the set has such sentences."""

PAGE_POSITIONS = (("sinusoidal", "add"), ("rotary", None), ("none", None))
"""Kinds of positions that the page computes, and how each is merged with embeddings."""
PAGE_ACTIVATIONS = ("relu", "silu")


def export(
    translator: Translator, out: Path, check: CheckSet | None, *, quantization: str | None
) -> ParityReport | None:
    """Write the page.

    Args:
        out: the new file.
        check: sentences for the comparison; some become the examples of the page. None: there are none.
        quantization: one of `heed.exchange.TARGETS["page"]`; None: "int10". With int8, a model of real text changes
            several times as many translations.

    Returns:
        The comparison of the model with the weights of the page. heed computes both.

    Raises:
        HeedError: if the page cannot compute the model exactly, or the check fails.
    """
    model, tokenizer, is_exact = translator.model, translator.tokenizer, quantization == "float32"
    if tokenizer.tags:
        raise HeedError("The page cannot choose between the target languages of this model: train one per direction.")
    if tokenizer.has_words:
        raise HeedError("The page cannot split text into words: train with tokenizer=bpe, unigram or char.")
    source, target = tokenizer_data(tokenizer.models[0]), tokenizer_data(tokenizer.models[-1])
    codes = translator.src_lang, translator.tgt_lang
    names = [language_name(code) or side for code, side in zip(codes, ("source", "target"), strict=True)]
    tensors, weights, rounded = encode_weights(model, quantization or "int10")
    sources = check.sources if check else []
    data = {
        "codes": codes,
        "languages": names,
        "config": describe(model),
        "limits": {name.removeprefix("max_length_"): getattr(translator.search, name) for name in LENGTH_LIMITS},
        "source": source,
        "target": None if len(tokenizer.models) == 1 else target,
        "examples": ([line for line in sources if len(line.split()) in EXAMPLE_WORDS] or sources)[:EXAMPLES],
        "titles": {kind: title for kind, (title, _) in TITLES.items()},
        "tensors": tensors,
        "weights": base64.b64encode(weights).decode(),
    }
    out.write_text(render_template("page.html.j2", folder=Path(__file__).parent / "page", data=data), encoding="utf-8")
    if check is None:
        return None
    return compare_engines(translator, PageEngine(model, rounded), check, is_exact=is_exact)


def describe(model: Seq2Seq) -> dict[str, Any]:
    """Return what the page needs to know of the architecture; raise a HeedError naming the parts that it lacks."""
    if isinstance(model, RNN):
        rnn, attention = model.config, model.config.attention
        unsupported = {
            f"cell but LSTM (model.cell={rnn.cell})": rnn.cell != "lstm",
            "residual sum of recurrent layers (model.residual=true)": rnn.residual,
            f"score but general (model.attention.score={attention.score})": attention.score != "general",
            f"attention but global (model.attention.reach={attention.reach})": attention.reach != "global",
            "decoder without input feeding (model.attention.input_feeding=false)": not attention.input_feeding,
        }
        refuse("The page", unsupported)
        return {"family": rnn.family, "reverse_source": rnn.reverse_source}
    config = require_transformer(model, "The page").config
    kind, merge = config.positions.kind, config.positions.merge
    positions = f"positions but rotary, none and added sinusoids (model.positions.kind={kind})"
    unsupported = {
        **common_gaps(config),
        f"{config.norm_kind} norm (model.norm_kind={config.norm_kind})": config.norm_kind != "layer",
        positions: (kind, merge) not in PAGE_POSITIONS,
        f"activation but ReLU and SiLU (model.activation={config.activation})": config.activation
        not in PAGE_ACTIVATIONS,
    }
    refuse("The page", unsupported)
    scores = {"self": config.self_attention.score, "cross": config.cross_attention.score}
    scaled = {kind: score == "scaled_dot" for kind, score in scores.items()}
    names = ("num_heads", "norm", "activation")
    architecture = {**{name: getattr(config, name) for name in names}, "positions": kind}
    return {"family": config.family, **architecture, "scaled": scaled}


def tokenizer_data(model: bytes) -> dict[str, Any]:
    """Return the pieces of a SentencePiece model, their scores and types, and how it normalizes text.

    Raises:
        HeedError: if it treats spaces in another way than heed's and OPUS-MT's.
    """
    proto = ModelProto.FromString(model)
    rules = proto.normalizer_spec
    if not (rules.add_dummy_prefix and rules.remove_extra_whitespaces and rules.escape_whitespaces):
        raise HeedError("The page cannot read spaces as this tokenizer does: export a model that heed has trained.")
    kinds = {2: "2", 3: "3", 5: "5", 6: "6"}  # a piece that a user reserved is like any other
    return {
        "pieces": [piece.piece for piece in proto.pieces],
        "scores": [piece.score for piece in proto.pieces],
        "types": "".join(kinds.get(piece.type, "1") for piece in proto.pieces),
        "unigram": proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM,
        "size": vocabulary_size(spm.SentencePieceProcessor(model_proto=model)),
        "charsmap": base64.b64encode(rules.precompiled_charsmap).decode(),
    }


def encode_weights(model: Seq2Seq, quantization: str) -> tuple[list[Any], bytes, list[torch.Tensor]]:
    """Return the name, shape and type of each weight, the bytes of all weights, and the weights that these encode.

    A matrix of type int8 is a float32 scale for each row, followed by round(W / scale). Of type int10, the upper 8 bits
    are followed by the two lowest, of four weights in a byte. Other weights are float32. Tied weights are written once.
    """
    tensors, parts, weights = [], [], []
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy().astype("<f4")
        kind = quantization if values.ndim == 2 else "float32"
        if kind == "float32":
            parts.append(values.tobytes())
        else:
            scale = (np.abs(values).max(1, keepdims=True) / {"int8": 127, "int10": 511}[kind]).clip(1e-30)
            codes = (values / scale).round().astype(np.int16)
            values = codes * scale
            parts += [scale.tobytes(), (codes >> 2 * (kind == "int10")).astype(np.int8).tobytes()]
            if kind == "int10":
                rest = np.resize(codes & 3, (-(-codes.size // 4), 4))
                parts.append((rest << np.array([0, 2, 4, 6])).sum(1).astype(np.uint8).tobytes())
        weights.append(torch.from_numpy(values))
        short = name.replace(".sublayer", "").replace(".attention", "")
        tensors.append((short, [*values.shape], kind))
    return tensors, b"".join(parts), weights


class PageEngine(TorchEngine, ExportedEngine):
    """heed's own computation with the weights of a page."""

    def __init__(self, model: Seq2Seq, weights: Sequence[torch.Tensor]) -> None:
        super().__init__(deepcopy(model).eval())
        with torch.no_grad():
            for parameter, weight in zip(self.model.parameters(), weights, strict=True):
                parameter.copy_(weight)

    @torch.inference_mode()
    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        return log_probs(self.model, [[*source, EOS]], [[*target, EOS]])[0]
