"""Search with a folder that `heed export --to ctranslate2` wrote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heed.data.tokenizer import Tokenizer
from heed.decoding import BeamSearch, GreedySearch, Hypothesis, Search
from heed.errors import HeedError
from heed.export import require
from heed.export.description import read_description
from heed.export.parity import ExportedEngine
from heed.symbols import BOS_PIECE, EOS_PIECE, PAD_PIECE

ADVICE = "Leave out --engine ctranslate2 to translate with heed's own engine."


class CTranslate2Engine(ExportedEngine):
    """CTranslate2 with the tokenizer and the length limits of the exported model.

    Greedy search finds the hypotheses of heed's own engine. Beam search explores by CTranslate2's rules and ranks what
    it finds by heed's score, so it may find others. Log-probabilities are normalised without <pad> and <s>, which makes
    them a little larger (some 0.001 nats a token for a trained model).

    Args:
        folder: what ``heed export --to ctranslate2`` wrote, or a copy.
        device: "cpu", "cuda", "cuda:1" or "auto".
        threads: threads of one translation; 0: CTranslate2's default.

    Raises:
        HeedError: the folder was not exported by heed, or CTranslate2 is not installed or cannot load it.
    """

    def __init__(self, folder: Path, *, device: str = "cpu", threads: int = 0) -> None:
        ctranslate2 = require("ctranslate2")
        self.positions = read_description(folder, "ctranslate2").get("positions")
        self.tokenizer = Tokenizer.load(folder)
        name, _, index = device.partition(":")
        options = {"device_index": int(index or 0), "inter_threads": 1, "intra_threads": threads}
        try:
            self._translator = ctranslate2.Translator(str(folder), device=name, **options)
        except (RuntimeError, ValueError) as error:
            raise HeedError(f"CTranslate2 cannot load {folder}: {error}") from error
        self._ids = {piece: id_ for id_, piece in enumerate(self.tokenizer.tgt_pieces(range(self.tokenizer.tgt_vocab)))}

    def check(self, search: Search) -> None:
        if not isinstance(search, BeamSearch | GreedySearch):
            raise HeedError(f"The engine ctranslate2 has beam search and greedy search only. {ADVICE}")

    def search(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        beam, penalty, n_best = 1, 0.0, 1
        if isinstance(search, BeamSearch):
            beam, penalty, n_best = search.beam, search.length_penalty, search.n_best
        limits = [search.limit(len(ids) + 1, self.positions) for ids in sources]
        results = self._translate_batch(sources, beam, max(limits))
        for row, (result, limit) in enumerate(zip(results, limits, strict=True)):
            # A batch shares its largest limit: a sentence that went beyond its own is translated again, alone.
            if any(len(pieces) > limit for pieces in result.hypotheses):
                (results[row],) = self._translate_batch([sources[row]], beam, limit)
        return [self._ranked(result, penalty)[:n_best] for result in results]

    def _translate_batch(self, sources: Sequence[Sequence[int]], beam: int, limit: int) -> list[Any]:
        """Return CTranslate2's results, with at most ``limit`` tokens each."""
        found: list[Any] = self._translator.translate_batch(
            [self.tokenizer.src_pieces(ids) for ids in sources],
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=0.0,
            max_decoding_length=limit,
            max_input_length=0,
            suppress_sequences=[[PAD_PIECE], [BOS_PIECE]],
            return_scores=True,
            return_end_token=True,
        )
        return found

    def _ranked(self, result: Any, length_penalty: float) -> list[Hypothesis]:
        """Return what CTranslate2 found for one source, best first by heed's score, finished ones first."""
        found = []
        for pieces, log_prob in zip(result.hypotheses, result.scores, strict=True):
            finished = pieces[-1:] == [EOS_PIECE]
            tokens = [self._ids[piece] for piece in (pieces[:-1] if finished else pieces)]
            score = log_prob / ((5 + len(pieces)) / 6) ** length_penalty
            found.append(Hypothesis(tokens, log_prob, score, finished))
        return sorted(found, key=lambda each: (each.finished, each.score), reverse=True)

    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        pieces = self.tokenizer.src_pieces(source), self.tokenizer.tgt_pieces(target)
        (scored,) = self._translator.score_batch(*([each] for each in pieces), max_input_length=0)
        return float(sum(scored.log_probs))
