"""Peers of decoding with heed's weights: Hugging Face's Marian (post-norm) or Pegasus (pre-norm), and CTranslate2."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmark.peers import UnavailableError, require
from heed.errors import HeedError
from heed.exchange import ctranslate2_model, to_huggingface
from heed.models.transformer import Transformer
from heed.symbols import BOS, BOS_PIECE, EOS, PAD, PAD_PIECE, SPECIAL_PIECES

Batches = Sequence[tuple[Tensor, Tensor]]
"""(src, src_mask) of each batch."""


class MarianDecoding:
    """Hugging Face's `generate` with the weights of a heed transformer; at most ``longest`` target tokens.

    Raises:
        UnavailableError: transformers is not installed, or has no equivalent model.
    """

    def __init__(self, model: Transformer, *, longest: int) -> None:
        require("transformers")
        try:
            self.marian = to_huggingface.convert(to_huggingface.check_supported(model))
        except HeedError as error:
            raise UnavailableError(str(error)) from error
        self.longest = longest

    def translate(self, batches: Batches, *, beam: int) -> list[list[int]]:
        """Return the target ids of all rows of all batches."""
        found = []
        with torch.inference_mode():
            for src, src_mask in batches:
                out = self.marian.generate(
                    input_ids=src,
                    attention_mask=src_mask.long(),
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=0.0,  # scores are log p, as on the other sides
                    max_new_tokens=self.longest,
                    suppress_tokens=[PAD, BOS],
                )
                found += [_until_eos(row) for row in out[:, 1:].tolist()]
        return found


def _until_eos(row: list[int]) -> list[int]:
    """The ids before EOS. A row at the length limit has no EOS and may end in padding."""
    ids = row[: row.index(EOS)] if EOS in row else row
    return [token for token in ids if token != PAD]


class CTranslate2Decoding:
    """CTranslate2 with the weights of a heed transformer; at most ``longest`` target tokens.

    Args:
        folder: where the converted model is written.
        kind: CTranslate2's compute type.

    Raises:
        UnavailableError: CTranslate2 is not installed or does not support the model.
    """

    def __init__(
        self, model: Transformer, folder: Path, *, kind: str, threads: int, longest: int, device: str = "cpu"
    ) -> None:
        ctranslate2 = require("ctranslate2")
        self.longest = longest
        others = range(len(SPECIAL_PIECES), model.output.num_embeddings)
        self.pieces = [*SPECIAL_PIECES, *map(str, others)]
        folder.mkdir()
        try:
            supported = ctranslate2_model.check_supported(model)
            quantization = None if kind == "float32" else kind
            ctranslate2_model.save(folder, supported, self.pieces, self.pieces, quantization=quantization)
        except HeedError as error:
            raise UnavailableError(str(error)) from error
        self.translator = ctranslate2.Translator(
            str(folder), device=device, compute_type=kind, inter_threads=1, intra_threads=threads
        )

    def translate(self, batches: Batches, *, beam: int) -> list[list[int]]:
        """Return the target ids of all rows of all batches, whose sources end in EOS."""
        found = []
        for src, mask in batches:
            sources = [row[inside][:-1].tolist() for row, inside in zip(src, mask, strict=True)]
            results = self.translator.translate_batch(
                [[self.pieces[token] for token in source] for source in sources],
                beam_size=beam,
                length_penalty=0.0,  # scores are log p, as on the other sides
                max_decoding_length=self.longest,
                suppress_sequences=[[PAD_PIECE], [BOS_PIECE]],
            )
            found += [[self.pieces.index(piece) for piece in result.hypotheses[0]] for result in results]
        return found
