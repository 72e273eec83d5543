"""The probabilities of words, from a model that predicts pieces.

A piece begins a word if there is a space before it, so a word ends where another one begins, or the sentence ends. Let
B be the probability of that: the sum over the pieces that begin a word, and EOS. Then (Pimentel & Meister 2024)

    p(word) = Π p(piece) · B(after the word) / B(before the word).

Without the quotient, "dog" would have the probability of all words that begin with it. The probabilities of all next
words and of EOS sum to 1; those of the words of a translation and of its EOS multiply to p(translation | source).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import BeamSearch
from heed.inference.engine import pad
from heed.models.edited import EditedModel
from heed.models.seq2seq import DecoderOutput, DecoderState, Seq2Seq
from heed.symbols import BOS, EOS, WORD_START_BYTE

LONGEST_WORD = 30
"""The most pieces of a candidate."""


def word_starts(tokenizer: Tokenizer) -> Bool[Tensor, " V"]:
    """Return which target pieces begin a word; EOS counts as one."""
    starts = torch.tensor([text.startswith(WORD_START_BYTE) for text in tokenizer.tgt_texts])
    starts[EOS] = True
    return starts


def word_search(n: int, prefix: int) -> BeamSearch:
    """Return a search for n words after ``prefix`` pieces, and more, as a word may have several segmentations."""
    beam, longest = max(2 * n, 20), prefix + LONGEST_WORD + 1
    return BeamSearch(beam=beam, n_best=beam, length_penalty=0.0, max_length_factor=0.0, max_length_extra=longest)


class NextWord(EditedModel):
    """A model of one word after a prefix: EOS has the probability that the word ends. EOS at once ends the sentence.

    Args:
        prefix: the pieces of whole words.
        starts: see `word_starts`.
    """

    def __init__(self, model: Seq2Seq, prefix: Sequence[int], starts: Bool[Tensor, " V"]) -> None:
        super().__init__(model, (), prefix)
        self.starts = starts.to(model.device)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, **options: Any
    ) -> tuple[DecoderOutput, DecoderState]:
        output, after = super().step(tokens, state, **options)
        logits, written = output.logits, state.length - len(self.prefix)
        if written == 0 and self.prefix:
            logits = logits.masked_fill(~self.starts, -torch.inf)
        elif written > 0:
            ends = logits[..., self.starts].logsumexp(-1)
            logits = logits.masked_fill(self.starts, -torch.inf)
            logits[..., EOS] = ends
        return replace(output, logits=logits), after


def word_log_probs(
    starts: Bool[Tensor, " V"], model: Seq2Seq, src_ids: Sequence[list[int]], tgt_ids: Sequence[list[int]]
) -> list[list[float]]:
    """Return log p in nats of each target piece of a batch, so that the sum over a word is that of the word.

    The space before a piece counts for the piece before it. Arguments as `heed.inference.engine.log_probs`.
    """
    starts = starts.to(model.device)
    src, src_mask = pad(src_ids, model.device)
    tgt_in, _ = pad([[BOS, *ids[:-1]] for ids in tgt_ids], model.device)
    tgt_out, _ = pad(tgt_ids, model.device)
    log_p = model(src, src_mask, tgt_in).log_softmax(2)
    begins = starts[tgt_out]
    begins[:, 0] = False  # before the first piece, no word has ended
    ends = log_p[..., starts].logsumexp(2).masked_fill(~begins, 0.0)
    values = log_p.gather(2, tgt_out[..., None]).squeeze(2) - ends + ends.roll(-1, 1)
    return [row[: len(ids)] for row, ids in zip(values.tolist(), tgt_ids, strict=True)]
