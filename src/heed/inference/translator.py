"""Translate, score and extract attention maps for text with a trained model."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from heed.data.tokenizer import Tokenizer
from heed.decoding import Hypothesis, Search
from heed.errors import HeedError
from heed.inference.batching import length_batches, pad
from heed.kernels import packed_weights
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast1, check
from heed.symbols import BOS, BOS_PIECE, EOS


@dataclass(frozen=True)
class Translation:
    """A hypothesis and its text."""

    text: str
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Attended:
    """A sentence pair with the model's attention weights over its pieces, without padding.

    Each row of a map is a distribution over its columns. Both piece lists end with EOS, except for a translation that
    reached the length limit of the search.
    """

    source: str
    target: str
    src_pieces: list[str]
    tgt_pieces: list[str]
    cross: Float[np.ndarray, "Ld H T S"] | None
    """Cross-attention; row t is that of the decoder state that predicts ``tgt_pieces[t]``."""
    encoder_self: Float[np.ndarray, "Le Hs S S"] | None
    """Encoder self-attention; rows and columns are ``src_pieces``."""
    decoder_self: Float[np.ndarray, "Ld Hs T T"] | None
    """Decoder self-attention; rows and columns are the decoder's input, `read_pieces`. Row t predicts
    ``tgt_pieces[t]``."""

    @property
    def read_pieces(self) -> list[str]:
        """The decoder's input: BOS, then the target without its last piece."""
        return [BOS_PIECE, *self.tgt_pieces[:-1]]


class Translator:
    """A model with its tokenizer and a search algorithm.

    Results are in the order of the input. They do not depend on how sentences are batched: the model runs in eval mode
    and without autocast (its own mode is restored afterwards). The translation of a line without text, or for which
    the tokenizer returns no pieces, is empty.

    Wherever a method takes sentences, a single string is one sentence; the result is a list all the same.

    Args:
        batch_tokens: padded source tokens per batch. Sentences of similar length share a batch.
        max_tokens: the longest accepted sentence in subwords without EOS; None for no limit. Time and memory grow with
            the square of the sentence length.
        packed: use weight layouts that are faster on this CPU (`heed.kernels.packing`); doubles the memory for weights.

    Raises:
        HeedError: if a number is out of range.
    """

    def __init__(
        self,
        model: Seq2Seq,
        tokenizer: Tokenizer,
        search: Search,
        *,
        batch_tokens: AtLeast1,
        max_tokens: AtLeast1 | None = None,
        packed: bool = False,
    ) -> None:
        check(Translator, {"batch_tokens": batch_tokens, "max_tokens": max_tokens}, where="")
        self.model = model
        self.tokenizer = tokenizer
        self.search = search.with_text(tokenizer.decode_tgt)
        self.batch_tokens = batch_tokens
        self.max_tokens = max_tokens
        self.packed = packed
        self.on_batch: Callable[[int], object] = _ignore
        """Called with the number of sentences after each batch, to report progress."""

    def translate(self, sentences: str | Sequence[str]) -> list[str]:
        """Return the best translation of each sentence.

        Raises:
            HeedError: naming a line (counted from 1) that is too long or not valid Unicode.
        """
        return [best.text for best, *_ in self.n_best(sentences)]

    def n_best(self, sentences: str | Sequence[str], *, first_line: int = 1) -> list[list[Translation]]:
        """Return all translations that the search finds for each sentence, best first.

        Args:
            first_line: number of the first sentence in error messages.

        Raises:
            HeedError: see `translate`.
        """
        results = self.translate_ids(self._encode_src(_as_list(sentences), first_line), first_line=first_line)
        texts = iter(self.tokenizer.decode_tgt([hypothesis.tokens for n_best in results for hypothesis in n_best]))
        return [[Translation(next(texts), hypothesis) for hypothesis in n_best] for n_best in results]

    def stream(self, lines: Iterable[str], *, chunk: int) -> Iterator[str]:
        """Yield the best translation of each line, reading ``chunk`` lines at a time."""
        return (best.text for best, *_ in self.stream_n_best(lines, chunk=chunk))

    def stream_n_best(self, lines: Iterable[str], *, chunk: int) -> Iterator[list[Translation]]:
        """Yield all translations of each line, best first, reading ``chunk`` lines at a time."""
        remaining, first_line = iter(_as_list(lines) if isinstance(lines, str) else lines), 1
        while sentences := list(islice(remaining, chunk)):
            yield from self.n_best(sentences, first_line=first_line)
            first_line += len(sentences)

    def translate_ids(self, sources: Sequence[Sequence[int]], *, first_line: int = 1) -> list[list[Hypothesis]]:
        """Return the hypotheses of the search for each source, best first.

        Args:
            sources: token ids without EOS. A source without tokens has one empty hypothesis.
            first_line: number of the first source in error messages.
        """
        empty = Hypothesis(tokens=[], log_prob=0.0, score=0.0, finished=True)
        results = [[empty] for _ in sources]
        with self._inference_mode():
            for batch in self._batches([len(ids) + 1 for ids in sources]):
                rows = [row for row in batch if sources[row]]
                if not rows:
                    continue
                src, src_mask = pad([[*sources[row], EOS] for row in rows], self.model.device)
                with _errors_name_line(first_line + rows[0]):
                    found = self.search(self.model, src, src_mask)
                for row, hypotheses in zip(rows, found, strict=True):
                    results[row] = hypotheses
        return results

    def score(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> list[float]:
        """Return log p(target | source) of each pair in nats: the sum over the target's tokens and EOS.

        Raises:
            HeedError: if there are not as many targets as sources, or a line is refused (see `translate`).
        """
        sources, targets = _as_list(sources), _as_list(targets)
        src_ids, tgt_ids = self._encode_pairs(sources, targets, first_line=1)
        scores = [0.0] * len(sources)
        with self._inference_mode():
            for rows in self._batches(_pair_lengths(src_ids, tgt_ids)):
                src, src_mask = pad([src_ids[row] for row in rows], self.model.device)
                tgt_in, _ = pad([[BOS, *tgt_ids[row][:-1]] for row in rows], self.model.device)
                tgt_out, tgt_mask = pad([tgt_ids[row] for row in rows], self.model.device)
                with _errors_name_line(1 + rows[0]):
                    logits = self.model(src, src_mask, tgt_in)
                gold = logits.gather(2, tgt_out[..., None]).squeeze(2)
                log_probs = (gold - logits.logsumexp(2)).masked_fill(~tgt_mask, 0.0)
                for row, total in zip(rows, log_probs.sum(1).tolist(), strict=True):
                    scores[row] = total
        return scores

    def attend(
        self, sources: str | Sequence[str], targets: str | Sequence[str] | None = None, *, first_line: int = 1
    ) -> list[Attended]:
        """Return the attention maps of each sentence pair.

        All maps are kept in memory: pass at most some hundred sentences at a time.

        Args:
            targets: the translations; None for the model's own.
            first_line: number of the first sentence in error messages.

        Raises:
            HeedError: if there are not as many targets as sources, or a line is refused (see `translate`).
        """
        sources = _as_list(sources)
        if targets is None:
            src_ids = [[*ids, EOS] for ids in self._encode_src(sources, first_line)]
            best = [n_best[0] for n_best in self.translate_ids([ids[:-1] for ids in src_ids], first_line=first_line)]
            tgt_ids = [[*hypothesis.tokens, EOS] if hypothesis.finished else hypothesis.tokens for hypothesis in best]
            targets = self.tokenizer.decode_tgt(tgt_ids)
        else:
            targets = _as_list(targets)
            src_ids, tgt_ids = self._encode_pairs(sources, targets, first_line=first_line)
        results: dict[int, Attended] = {}
        with self._inference_mode():
            for rows in self._batches(_pair_lengths(src_ids, tgt_ids)):
                src, src_mask = pad([src_ids[row] for row in rows], self.model.device)
                tgt_in, _ = pad([[BOS, *tgt_ids[row][:-1]] for row in rows], self.model.device)
                with _errors_name_line(first_line + rows[0]):
                    memory = self.model.encode(src, src_mask, maps=True)
                    maps = self.model.decode(tgt_in, memory, maps=True).attention
                assert maps is not None
                for batch_row, row in enumerate(rows):
                    S, T = len(src_ids[row]), len(tgt_ids[row])
                    results[row] = Attended(
                        source=sources[row],
                        target=targets[row],
                        src_pieces=self.tokenizer.src_pieces(src_ids[row]),
                        tgt_pieces=self.tokenizer.tgt_pieces(tgt_ids[row]),
                        cross=_unpad(maps.cross, batch_row, T, S),
                        encoder_self=_unpad(maps.encoder_self, batch_row, S, S),
                        decoder_self=_unpad(maps.decoder_self, batch_row, T, T),
                    )
        return [results[row] for row in range(len(sources))]

    def _encode_pairs(
        self, sources: list[str], targets: list[str], *, first_line: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ids of sources and of targets, with EOS."""
        if len(sources) != len(targets):
            raise HeedError(f"{len(sources)} sources and {len(targets)} targets are not pairs: give equally many.")
        src_ids = self._encode_src(sources, first_line)
        tgt_ids = self._encode(self.tokenizer.encode_tgt, targets, first_line)
        return [[*ids, EOS] for ids in src_ids], [[*ids, EOS] for ids in tgt_ids]

    def _encode_src(self, sentences: list[str], first_line: int) -> list[list[int]]:
        """Return the ids of source sentences, without EOS; no ids for white space of any script."""
        sentences = [line if line.strip() else "" for line in sentences]
        return self._encode(self.tokenizer.encode_src, sentences, first_line)

    def _encode(
        self, encode: Callable[[Sequence[str]], list[list[int]]], sentences: list[str], first_line: int
    ) -> list[list[int]]:
        """Return the ids by ``encode``, a method of the tokenizer, after checking that every sentence is accepted."""
        for number, line in enumerate(sentences, first_line):
            if SURROGATE.search(line):
                raise HeedError(
                    f"Line {number} is not Unicode text: it contains a lone surrogate. Bytes that are not UTF-8 become "
                    "surrogates when they are read with errors='surrogateescape'."
                )
        encoded = encode(sentences)
        for number, ids in enumerate(encoded, first_line):
            if self.max_tokens is not None and len(ids) > self.max_tokens:
                raise HeedError(
                    f"Line {number} has {len(ids):,} subwords, and the limit is {self.max_tokens:,}: split it into "
                    "sentences, or raise the limit (--max-tokens)."
                )
        return encoded

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield batches of indices into ``lengths``, see `length_batches`."""
        for batch in length_batches(lengths, self.batch_tokens):
            yield batch
            self.on_batch(len(batch))

    @contextmanager
    def _inference_mode(self) -> Iterator[None]:
        """Run the model in eval mode, without gradients and autocast, then restore its mode."""
        training = self.model.training
        self.model.eval()
        try:
            with (
                torch.inference_mode(),
                torch.autocast(self.model.device.type, enabled=False),
                packed_weights() if self.packed else nullcontext(),
            ):
                yield
        finally:
            self.model.train(training)


SURROGATE = re.compile("[\ud800-\udfff]")


def _ignore(sentences: int) -> None:
    """Report no progress."""


def _as_list(sentences: str | Iterable[str]) -> list[str]:
    """Return a single string as a list of one sentence, not of its characters."""
    return [sentences] if isinstance(sentences, str) else list(sentences)


def _pair_lengths(src_ids: Sequence[Sequence[int]], tgt_ids: Sequence[Sequence[int]]) -> list[int]:
    """Return the length of each pair's longer side."""
    return [max(len(src), len(tgt)) for src, tgt in zip(src_ids, tgt_ids, strict=True)]


def _unpad(
    maps: Float[Tensor, "L H B Q K"] | None, row: int, queries: int, keys: int
) -> Float[np.ndarray, "L H Q2 K2"] | None:
    """Return a copy of one sentence's maps without padding, which does not keep the batch in memory."""
    return None if maps is None else maps[:, :, row, :queries, :keys].float().cpu().numpy().copy()


@contextmanager
def _errors_name_line(number: int) -> Iterator[None]:
    """Add the number of a batch's longest line, for which the model refuses the batch, to a HeedError."""
    try:
        yield
    except HeedError as error:
        raise HeedError(f"Line {number}: {error}") from error
