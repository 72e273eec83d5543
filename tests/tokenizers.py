"""SentencePiece tokenizers for tests, trained on a few lines."""

import io
from collections.abc import Iterable
from typing import Any

import sentencepiece as spm

from heed.data.pairs.tokenizer import Tokenizer
from heed.symbols import BOS, EOS, PAD, UNK


def train_tokenizer(lines: Iterable[str], *, vocab_size: int, joint: bool = False, **options: Any) -> Tokenizer:
    """Return a BPE tokenizer; unless ``joint``, the source and target vocabularies are separate but equal.

    Args:
        options: further options of SentencePiece.
    """
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocab_size,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
        **{"model_type": "bpe", **options},
    )
    return Tokenizer([model.getvalue()] * (1 if joint else 2))
