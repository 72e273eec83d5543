"""Hugging Face's Marian (post-norm) and Pegasus (the same, pre-norm): training, and decoding with heed's weights."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from benchmark.peers import UnavailableError, require
from heed.errors import HeedError
from heed.export.huggingface_model import check_supported, convert, empty_model
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig
from heed.symbols import BOS, EOS, PAD


class MarianTraining(nn.Module):
    """Maps (src, src_mask, tgt_in) to logits, for `torch_peer.PlainLoop`."""

    def __init__(self, vocabulary: int, config: TransformerConfig) -> None:
        super().__init__()
        require("transformers").logging.set_verbosity_error()
        self.marian = empty_model(replace(config, norm="post"), src_vocab=vocabulary, tgt_vocab=vocabulary, shared=True)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        logits: Tensor = self.marian(
            input_ids=src, attention_mask=src_mask, decoder_input_ids=tgt_in, use_cache=False
        ).logits
        return logits


class MarianDecoding:
    """Hugging Face's `generate` with the weights of a heed transformer.

    Raises:
        UnavailableError: transformers is not installed, or has no equivalent model.
    """

    def __init__(self, model: Transformer, *, longest: int) -> None:
        require("transformers")
        try:
            self.marian = convert(check_supported(model))
        except HeedError as error:
            raise UnavailableError(str(error)) from error
        self.longest = longest

    def translate(self, batches: Sequence[tuple[Tensor, Tensor]], *, beam: int) -> list[list[int]]:
        """Return the target ids of all rows of all (src, src_mask)."""
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
