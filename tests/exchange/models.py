"""Tiny models with random weights, and their model folders."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from heed.inference import model_folder
from heed.layers.attention import SelfAttentionConfig
from heed.layers.positions import PositionsConfig
from heed.models import build_model
from heed.models.seq2seq import ModelConfig
from tests.conftest import TRANSFORMER
from tests.tokenizers import train_tokenizer

LINES = [
    "the dog runs", "a cat sleeps in the house", "the farmer saw the dog and the cat", "the house",
    "a dog and a cat saw the farmer",
]  # fmt: skip
LANGUAGES = {"src_lang": "en", "tgt_lang": "de"}


def positions(kind: str, merge: Any = None, max_length: int | None = None) -> PositionsConfig:
    return PositionsConfig(kind=kind, merge=merge, max_length=max_length)


def transformer(**changes: Any) -> ModelConfig:
    """Return a configuration with heads of even width, which rotary positions need."""
    return replace(TRANSFORMER, **{"d_model": 24, "num_heads": 4, **changes})


ADDITIVE = SelfAttentionConfig(kind="qkv", score="additive")
UNSCALED = SelfAttentionConfig(kind="qkv", score="dot")
PARAMETER_FREE = SelfAttentionConfig(kind="parameter_free", score="scaled_dot")


def write_model(
    folder: Path,
    config: ModelConfig,
    *,
    joint: bool = True,
    seed: int = 1,
    lines: Sequence[str] = LINES,
    languages: Mapping[str, str] = LANGUAGES,
    **pieces: Any,
) -> Path:
    """Write a model folder with random weights, larger than at initialization so that translations differ.

    Args:
        pieces: options of the tokenizer.
    """
    torch.manual_seed(seed)
    tokenizer = train_tokenizer([*lines] * 3, joint=joint, **{"vocab_size": 40, **pieces})
    model = build_model(config, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=joint)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model_folder.save(folder, model, tokenizer, extra=languages)
    return folder


def write_run(folder: Path, config: ModelConfig, *, lines: Sequence[str] = LINES, **options: Any) -> Path:
    """Write a run: a model folder and its validation sentences."""
    write_model(folder / "model", config, lines=lines, **options)
    (folder / "translations").mkdir()
    for side in ("src", "ref"):
        (folder / "translations" / f"valid.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder
