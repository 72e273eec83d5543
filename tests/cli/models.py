"""Model folders with random weights, text files, and the type of the fixture ``heed``."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from heed.data.pairs.tokenizer import Tokenizer
from heed.inference import model_folder
from heed.models.seq2seq import Seq2Seq
from tests.tokenizers import train_tokenizer

Heed = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]
TinyModel = Callable[..., Seq2Seq]

LINES = ["a man rides a bike .", "", "the dog sleeps .", "two children play with a red ball in the park ."]
TEXT = [*LINES, "größer ist schöner"]
SEARCH: dict[str, Any] = {
    "beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3,
}  # fmt: skip


def save_model(
    folder: Path,
    tiny_model: TinyModel,
    family: str = "transformer",
    *,
    text: Iterable[str] = TEXT,
    vocab_size: int = 70,
    seed: int = 3,
    scale: float = 1.0,
    **extra: Any,
) -> Path:
    """Save a tiny model with a tokenizer of ``text``; larger weights (``scale``) make its attention less even."""
    tokenizer = train_tokenizer(text, vocab_size=vocab_size)
    torch.manual_seed(seed)
    model = tiny_model(family, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return save(folder, model, tokenizer, **extra)


def save(folder: Path, model: Seq2Seq, tokenizer: Tokenizer, **extra: Any) -> Path:
    model_folder.save(folder, model, tokenizer, extra=extra)
    return folder


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
