"""Sentences → ids → search → sentences: one Translator for validation, the command line and the server."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from heed.data.tokenizer import Tokenizer
from heed.decoding import Hypothesis, Search
from heed.errors import HeedError
from heed.kernels import packed_weights
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast1, check
from heed.symbols import BOS, EOS, PAD


@dataclass(frozen=True)
class Translation:
    """A hypothesis, and how it reads."""

    text: str
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Attended:
    """A sentence pair, and where the model looked while it read the one and wrote the other: its maps, unpadded.

    Every row is a distribution over what could be looked at. The pieces are the model's own, EOS included: it ends a
    source and a target, unless the search broke that off.
    """

    source: str
    target: str
    src_pieces: list[str]
    tgt_pieces: list[str]
    cross: Float[np.ndarray, "Ld H T S"] | None
    """Row t belongs to the state that predicted ``tgt_pieces[t]``."""
    encoder_self: Float[np.ndarray, "Le Hs S S"] | None
    decoder_self: Float[np.ndarray, "Ld Hs T T"] | None
    """Rows and columns are what the decoder had read, `read_pieces`: its row t, too, predicted ``tgt_pieces[t]``."""

    @property
    def read_pieces(self) -> list[str]:
        """What the decoder read: BOS, then the target up to its last piece but one."""
        return ["<s>", *self.tgt_pieces[:-1]]


class Translator:
    """A model with its tokenizer and a search.

    Sentences of similar length are batched together, ``batch_tokens`` padded tokens at a time, and come back in the
    order in which they were given. Their batch has no part in the answer: the model runs in eval mode (its own mode is
    restored), without autocast. A line that is empty or only white space, and one of which the tokenizer leaves
    nothing, stays empty.

    Wherever sentences are given, a single string is one sentence; the answer is a list all the same.

    Args:
        max_tokens: subwords of the longest sentence that is accepted, the end not counted; None: no limit. Time and
            memory grow with the square of a sentence's length.
        packed: lay out the model's weights for this CPU while it runs, at twice the memory (see `packing`).
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

    def translate(self, sentences: str | Sequence[str]) -> list[str]:
        """The best translation of every sentence."""
        return [best.text for best, *_ in self.n_best(sentences)]

    def n_best(self, sentences: str | Sequence[str], *, first_line: int = 1) -> list[list[Translation]]:
        """All that the search returns for every sentence, best first. Errors count lines from ``first_line``."""
        found = self.hypotheses(self._encode_src(_listed(sentences), first_line), first_line=first_line)
        texts = iter(self.tokenizer.decode_tgt([hypothesis.tokens for n_best in found for hypothesis in n_best]))
        return [[Translation(next(texts), hypothesis) for hypothesis in n_best] for n_best in found]

    def stream(self, lines: Iterable[str], *, chunk: int) -> Iterator[str]:
        """``translate`` for any number of lines, ``chunk`` of them in memory at a time."""
        return (best.text for best, *_ in self.stream_n_best(lines, chunk=chunk))

    def stream_n_best(self, lines: Iterable[str], *, chunk: int) -> Iterator[list[Translation]]:
        """``n_best`` for any number of lines, ``chunk`` of them in memory at a time."""
        rest, first_line = iter(_listed(lines) if isinstance(lines, str) else lines), 1
        while sentences := list(islice(rest, chunk)):
            yield from self.n_best(sentences, first_line=first_line)
            first_line += len(sentences)

    def hypotheses(self, sources: Sequence[Sequence[int]], *, first_line: int = 1) -> list[list[Hypothesis]]:
        """What the search finds for sources given as ids, without EOS. Errors count lines from ``first_line``."""
        nothing = Hypothesis(tokens=[], log_prob=0.0, score=0.0, finished=True)
        found = [[nothing] for _ in sources]
        with self._inference():
            for batch in self._batches([len(ids) + 1 for ids in sources]):
                rows = [row for row in batch if sources[row]]
                if not rows:
                    continue
                src, src_mask = self._pad([[*sources[row], EOS] for row in rows])
                with _naming_line(first_line + rows[0]):
                    answers = self.search(self.model, src, src_mask)
                for row, answer in zip(rows, answers, strict=True):
                    found[row] = answer
        return found

    def score(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> list[float]:
        """log p(target | source) of each pair: the sum over its tokens, EOS included, in nats."""
        sources, targets = _listed(sources), _listed(targets)
        src_ids, tgt_ids = self._pairs(sources, targets, first_line=1)
        scores = [0.0] * len(sources)
        with self._inference():
            for rows in self._batches([max(len(s), len(t)) for s, t in zip(src_ids, tgt_ids, strict=True)]):
                src, src_mask = self._pad([src_ids[row] for row in rows])
                tgt_in, _ = self._pad([[BOS, *tgt_ids[row][:-1]] for row in rows])
                tgt_out, tgt_mask = self._pad([tgt_ids[row] for row in rows])
                with _naming_line(1 + rows[0]):
                    logits = self.model(src, src_mask, tgt_in)
                gold = logits.gather(2, tgt_out[..., None]).squeeze(2)
                log_probs = (gold - logits.logsumexp(2)).masked_fill(~tgt_mask, 0.0)
                for row, total in zip(rows, log_probs.sum(1).tolist(), strict=True):
                    scores[row] = total
        return scores

    def attend(
        self, sources: str | Sequence[str], targets: str | Sequence[str] | None = None, *, first_line: int = 1
    ) -> list[Attended]:
        """Where the model looks, for every sentence and its translation: the given one, or (None) its own.

        All maps of all sentences are in memory: ask for some hundred sentences at a time. Errors count lines from
        ``first_line``.
        """
        sources = _listed(sources)
        if targets is None:
            src_ids = [[*ids, EOS] for ids in self._encode_src(sources, first_line)]
            best = [n_best[0] for n_best in self.hypotheses([ids[:-1] for ids in src_ids], first_line=first_line)]
            tgt_ids = [[*hypothesis.tokens, EOS] if hypothesis.finished else hypothesis.tokens for hypothesis in best]
            targets = self.tokenizer.decode_tgt(tgt_ids)
        else:
            targets = _listed(targets)
            src_ids, tgt_ids = self._pairs(sources, targets, first_line=first_line)
        found: list[Attended | None] = [None] * len(sources)
        with self._inference():
            for rows in self._batches([max(len(s), len(t)) for s, t in zip(src_ids, tgt_ids, strict=True)]):
                src, src_mask = self._pad([src_ids[row] for row in rows])
                tgt_in, _ = self._pad([[BOS, *tgt_ids[row][:-1]] for row in rows])
                with _naming_line(first_line + rows[0]):
                    maps = self.model.decode(tgt_in, self.model.encode(src, src_mask, maps=True), maps=True).attention
                assert maps is not None
                for place, row in enumerate(rows):
                    S, T = len(src_ids[row]), len(tgt_ids[row])
                    found[row] = Attended(
                        source=sources[row],
                        target=targets[row],
                        src_pieces=self.tokenizer.src_pieces(src_ids[row]),
                        tgt_pieces=self.tokenizer.tgt_pieces(tgt_ids[row]),
                        cross=_cut(maps.cross, place, T, S),
                        encoder_self=_cut(maps.encoder_self, place, S, S),
                        decoder_self=_cut(maps.decoder_self, place, T, T),
                    )
        return [seen for seen in found if seen is not None]

    def _pairs(
        self, sources: list[str], targets: list[str], *, first_line: int
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Ids of sources and of their translations, each ended by EOS."""
        if len(sources) != len(targets):
            raise HeedError(f"{len(sources)} sources and {len(targets)} targets are not pairs: give equally many.")
        src_ids = self._encode_src(sources, first_line)
        tgt_ids = self._encoded(self.tokenizer.encode_tgt, targets, first_line)
        return [[*ids, EOS] for ids in src_ids], [[*ids, EOS] for ids in tgt_ids]

    def _encode_src(self, sentences: list[str], first_line: int) -> list[list[int]]:
        """Ids of source sentences, without EOS; none of a sentence that is only white space, U+3000 included."""
        return self._encoded(
            self.tokenizer.encode_src, [line if line.strip() else "" for line in sentences], first_line
        )

    def _encoded(
        self, encode: Callable[[Sequence[str]], list[list[int]]], sentences: list[str], first_line: int
    ) -> list[list[int]]:
        """Ids by one side's tokenizer; a sentence that is no Unicode text or too long is refused by its line."""
        for number, line in enumerate(sentences, first_line):
            if SURROGATE.search(line):
                raise HeedError(
                    f"Line {number} is not Unicode text: it holds half of a surrogate pair, as bytes that are not "
                    "UTF-8 become when they are read with errors='surrogateescape'."
                )
        found = encode(sentences)
        for number, ids in enumerate(found, first_line):
            if self.max_tokens is not None and len(ids) > self.max_tokens:
                raise HeedError(
                    f"Line {number} has {len(ids):,} subwords and may have {self.max_tokens:,}: split it into "
                    "sentences, or raise the limit (--max-tokens)."
                )
        return found

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows of similar length, longest first; rows × longest stays within ``batch_tokens`` where a row does."""
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        while order:
            size = max(1, self.batch_tokens // lengths[order[0]])
            yield order[:size]
            order = order[size:]

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
        ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        return ids.to(self.model.device), mask.to(self.model.device)

    @contextmanager
    def _inference(self) -> Iterator[None]:
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


def _listed(sentences: str | Iterable[str]) -> list[str]:
    """A single string as one sentence, rather than as its letters."""
    return [sentences] if isinstance(sentences, str) else list(sentences)


def _cut(
    maps: Float[Tensor, "L H B Q K"] | None, row: int, queries: int, keys: int
) -> Float[np.ndarray, "L H Q2 K2"] | None:
    """One sentence's maps, without the padding and as a copy that does not hold on to it."""
    return None if maps is None else maps[:, :, row, :queries, :keys].float().cpu().numpy().copy()


@contextmanager
def _naming_line(number: int) -> Iterator[None]:
    """A model refuses a batch for its longest line, of which only the caller knows the number."""
    try:
        yield
    except HeedError as error:
        raise HeedError(f"Line {number}: {error}") from error
