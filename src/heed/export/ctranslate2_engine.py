"""Translate with a folder that `heed export --to ctranslate2` wrote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.export.description import read_description
from heed.export.extra import require
from heed.inference import BATCH_TOKENS
from heed.inference.batching import length_batches
from heed.inference.search_settings import search_settings
from heed.symbols import BOS_PIECE, EOS_PIECE, PAD_PIECE


class CTranslate2Engine:
    """CTranslate2 with the tokenizer and the length limits of the exported model.

    Greedy search returns the same texts as heed. Beam search explores by CTranslate2's rules and ranks what it finds by
    heed's score, so it may return other texts.

    Args:
        folder: what ``heed export --to ctranslate2`` wrote, or a copy.
        device: "cpu", "cuda" or "auto".
        threads: threads of one translation; 0: CTranslate2's default.
        compute_type: CTranslate2's type of computations; "default": that of the weights.

    Raises:
        HeedError: the folder was not exported by heed, or CTranslate2 is not installed or cannot load it.
    """

    def __init__(self, folder: Path, *, device: str = "cpu", threads: int = 0, compute_type: str = "default") -> None:
        ctranslate2 = require("ctranslate2")
        self.description = read_description(folder, "ctranslate2")
        self.tokenizer = Tokenizer.load(folder)
        try:
            self._translator = ctranslate2.Translator(
                str(folder), device=device, compute_type=compute_type, inter_threads=1, intra_threads=threads
            )
        except (RuntimeError, ValueError) as error:
            raise HeedError(f"CTranslate2 cannot load {folder}: {error}") from error
        self._search = search_settings(self.description.get("search"), "beam")
        self._ids = {piece: id_ for id_, piece in enumerate(self.tokenizer.tgt_pieces(range(self.tokenizer.tgt_vocab)))}

    @property
    def src_lang(self) -> str:
        """The language code of the source, "" if unknown."""
        return str(self.description["src_lang"])

    @property
    def tgt_lang(self) -> str:
        """The language code of the target, "" if unknown."""
        return str(self.description["tgt_lang"])

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam: int = 1,
        length_penalty: float = 0.0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[str]:
        """Return the translation of each sentence; that of a blank sentence is empty.

        Args:
            beam: hypotheses kept; 1 is greedy search.
            length_penalty: exponent of heed's length penalty.
            batch_tokens: padded source tokens per batch.
        """
        sources = self.tokenizer.encode_src([line if line.strip() else "" for line in sentences])
        found = self.translate_ids(sources, beam=beam, length_penalty=length_penalty, batch_tokens=batch_tokens)
        return self.tokenizer.decode_tgt(found)

    def translate_ids(
        self,
        sources: Sequence[Sequence[int]],
        *,
        beam: int = 1,
        length_penalty: float = 0.0,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[list[int]]:
        """Return the target ids, without EOS, of each source, given as ids without EOS."""
        found: list[list[int]] = [[] for _ in sources]
        for batch in length_batches([len(ids) + 1 for ids in sources], batch_tokens):
            rows = [row for row in batch if sources[row]]
            if not rows:
                continue
            limits = [self._limit(len(sources[row]) + 1) for row in rows]
            results = self._translator.translate_batch(
                [self.tokenizer.src_pieces(sources[row]) for row in rows],
                beam_size=beam,
                num_hypotheses=beam,
                length_penalty=0.0,
                max_decoding_length=max(limits),
                max_input_length=0,
                suppress_sequences=[[PAD_PIECE], [BOS_PIECE]],
                return_scores=True,
                return_end_token=True,
            )
            for row, limit, result in zip(rows, limits, results, strict=True):
                found[row] = self._best(result, limit, length_penalty)
        return found

    def score_ids(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        """Return log p(target, EOS | source) in nats of each pair, given as ids without EOS."""
        scored = self._translator.score_batch(
            [self.tokenizer.src_pieces(ids) for ids in sources],
            [self.tokenizer.tgt_pieces(ids) for ids in targets],
            max_input_length=0,
        )
        return [float(sum(each.log_probs)) for each in scored]

    def _limit(self, length: int) -> int:
        """Return the maximal number of target tokens, EOS included, of a source of ``length`` tokens with EOS."""
        limit = max(1, int(self._search["max_length_factor"] * length + self._search["max_length_extra"]))
        positions = self.description.get("positions")
        return limit if positions is None else min(limit, int(positions))

    def _best(self, result: Any, limit: int, length_penalty: float) -> list[int]:
        """Return the ids of the best hypothesis by heed's score, finished ones first."""
        ranked = []
        for pieces, log_prob in zip(result.hypotheses, result.scores, strict=True):
            kept = pieces[:limit]  # a batch shares the largest limit of its sentences
            finished = kept[-1:] == [EOS_PIECE]
            score = log_prob / ((5 + len(kept)) / 6) ** length_penalty
            ranked.append((finished, score, kept[:-1] if finished else kept))
        _, _, best = max(ranked, key=lambda each: each[:2])
        return [self._ids[piece] for piece in best]
