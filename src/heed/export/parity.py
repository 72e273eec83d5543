"""Compare an exported model with heed's own: translations, scores, size and speed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import torch

from heed.data.tokenizer import Tokenizer
from heed.decoding import BeamSearch, GreedySearch, Search
from heed.errors import HeedError
from heed.evaluation.scores import corpus_scores
from heed.inference.batching import pad
from heed.inference.search_settings import LENGTH_LIMITS, search_settings
from heed.inference.translator import Translator
from heed.runs.folder import validation_files
from heed.symbols import BOS, EOS

SENTENCES = 200
"""Sentences of a check, at most."""

SCORE_TOLERANCE = 1e-3
"""Largest difference of a log-probability, in nats."""

TIE = 1e-3
"""Two next tokens whose logits differ by less are a tie: rounding decides which one greedy search chooses."""

Ids = list[list[int]]


class Engine(Protocol):
    """An exported model that the check runs."""

    def translate_ids(self, sources: Sequence[Sequence[int]]) -> Ids:
        """Return the greedy translations: ids without EOS."""

    def score_ids(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[float]:
        """Return log p(target, EOS | source) in nats of each pair, given as ids without EOS."""


@dataclass(frozen=True)
class CheckSet:
    """The sentences of a check."""

    sources: list[str]
    references: list[str] | None
    name: str
    """Where they come from, for the report, which is published with the export: no path."""


@dataclass(frozen=True)
class Report:
    """The comparison of an exported model with heed's."""

    sentences: int
    name: str
    equal: int
    """Sentences with the same greedy translation."""
    ties: int
    """Sentences in which the first different token is a tie (`TIE`)."""
    score_difference: float
    """Largest difference of log p of heed's beam search results, in nats."""
    bleu: tuple[float, float] | None
    """BLEU of greedy translations, of heed and of the export; None without references."""
    heed_speed: float
    """Greedy sentences per second, one batch of similar lengths at a time."""
    export_speed: float

    def lines(self) -> list[str]:
        """Return the report as text."""
        found = f"{self.equal} of {self.sentences} greedy translations are equal"
        found += f", {self.ties} differ by a tie" if self.ties else ""
        lines = [f"check on {self.name}: {found}; beam scores differ by at most {self.score_difference:.1e}"]
        if self.bleu is not None:
            ours, theirs = self.bleu
            lines.append(f"BLEU (greedy): {ours:.2f} before, {theirs:.2f} after, {theirs - ours:+.2f}")
        lines.append(
            f"speed (greedy): heed {self.heed_speed:.1f}, export {self.export_speed:.1f} sentences/s "
            f"({self.export_speed / self.heed_speed:.1f} ×)"
        )
        return lines

    def plain(self) -> dict[str, Any]:
        """Return the report for ``heed.json``."""
        return {
            "sentences": self.sentences,
            "equal": self.equal,
            "ties": self.ties,
            "score_difference": self.score_difference,
            "bleu": self.bleu,
            "sentences_per_second": {"heed": self.heed_speed, "export": self.export_speed},
        }


def check_sentences(
    run: Path, file: Path | None, read: Callable[[Path], list[str]], directions: Sequence[str]
) -> CheckSet:
    """Return the sentences for the check of a run's export.

    Args:
        run: a run, or its model folder.
        file: sentences instead of the run's validation set; None for the validation set.
        read: returns the lines of a file.
        directions: of the model; the export is for the first one.

    Raises:
        HeedError: there are none.
    """
    if file is not None:
        return CheckSet(_not_blank(read(file), file)[:SENTENCES], None, file.name)
    files = validation_files(run, directions).get(directions[0])
    if files is None:
        raise HeedError(
            f"{run} has no validation set of {directions[0]} (translations/valid.src), with which an export is "
            "checked: give sentences with --check FILE."
        )
    sources, references = map(read, files)
    pairs = [pair for pair in zip(sources, references, strict=False) if pair[0].strip()][:SENTENCES]
    _not_blank([source for source, _ in pairs], files[0])
    return CheckSet([src for src, _ in pairs], [ref for _, ref in pairs], "the validation set")


def _not_blank(lines: list[str], path: Path) -> list[str]:
    kept = [line for line in lines if line.strip()]
    if not kept:
        raise HeedError(f"{path} has no sentence to check the export with.")
    return kept


def compare(translator: Translator, engine: Engine, check: CheckSet) -> Report:
    """Translate the sentences on both sides and compare."""
    sources = translator.tokenizer.encode_src(check.sources)
    greedy, beam = _searches(translator)
    _warm_up(translator, engine, sources, greedy)
    ours, heed_seconds = _timed(lambda: _tokens(translator, sources, greedy))
    theirs, export_seconds = _timed(lambda: engine.translate_ids(sources))
    different = [row for row in range(len(sources)) if ours[row] != theirs[row]]
    return Report(
        sentences=len(sources),
        name=check.name,
        equal=len(sources) - len(different),
        ties=sum(_is_tie(translator, sources[row], ours[row], theirs[row]) for row in different),
        score_difference=_score_difference(translator, engine, sources, beam),
        bleu=_bleu(translator.tokenizer, ours, theirs, check.references, translator.tgt_lang),
        heed_speed=len(sources) / heed_seconds,
        export_speed=len(sources) / export_seconds,
    )


def require_equal(report: Report) -> None:
    """Check that a float32 export computes the same as heed.

    Raises:
        HeedError: translations differ that are not ties, or scores differ by more than `SCORE_TOLERANCE`.
    """
    if different := report.sentences - report.equal - report.ties:
        raise HeedError(
            f"The export was not written: {different} of {report.sentences} greedy translations differ from heed's on "
            f"{report.name}. This is a bug of heed: please report it with the model's config.yaml."
        )
    if not report.score_difference <= SCORE_TOLERANCE:
        raise HeedError(
            f"The export was not written: scores differ from heed's by {report.score_difference:.2g} nats on "
            f"{report.name}, and {SCORE_TOLERANCE} is the limit. This is a bug of heed: please report it with the "
            "model's config.yaml."
        )


def length_limits(saved: Any) -> dict[str, float]:
    """Return the length limits of a model folder's ``search`` section."""
    settings = search_settings(saved, "beam")
    return {name: settings[name] for name in LENGTH_LIMITS}


def _searches(translator: Translator) -> tuple[Search, Search]:
    limits: Any = {name: getattr(translator.search, name) for name in LENGTH_LIMITS}
    return GreedySearch(**limits), BeamSearch(beam=5, length_penalty=0.0, n_best=1, **limits)


def _warm_up(translator: Translator, engine: Engine, sources: Ids, greedy: Search) -> None:
    _tokens(translator, sources[:4], greedy)
    engine.translate_ids(sources[:4])


def _timed(work: Callable[[], Ids]) -> tuple[Ids, float]:
    start = perf_counter()
    result = work()
    return result, perf_counter() - start


def _tokens(translator: Translator, sources: Ids, search: Search) -> Ids:
    return [n_best[0].tokens for n_best in translator.translate_ids(sources, search=search)]


def _score_difference(translator: Translator, engine: Engine, sources: Ids, beam: Search) -> float:
    """Return the largest difference between heed's and the engine's log p of heed's beam search results.

    A result that was cut at the length limit is scored as if it ended before its last token.
    """
    found = [n_best[0] for n_best in translator.translate_ids(sources, search=beam)]
    pairs = [
        (source, best.tokens if best.finished else best.tokens[:-1])
        for source, best in zip(sources, found, strict=True)
        if source
    ]
    theirs = engine.score_ids([source for source, _ in pairs], [target for _, target in pairs])
    ours = [_log_prob(translator, source, target) for source, target in pairs]
    return max((abs(a - b) for a, b in zip(ours, theirs, strict=True)), default=0.0)


@torch.inference_mode()
def _log_prob(translator: Translator, source: list[int], target: list[int]) -> float:
    """Return heed's log p(target, EOS | source) in nats."""
    src, src_mask = pad([[*source, EOS]], translator.model.device)
    tgt_in, _ = pad([[BOS, *target]], translator.model.device)
    tgt_out, _ = pad([[*target, EOS]], translator.model.device)
    log_probs = translator.model(src, src_mask, tgt_in).log_softmax(-1)
    return float(log_probs.gather(2, tgt_out[..., None]).sum())


@torch.inference_mode()
def _is_tie(translator: Translator, source: list[int], ours: list[int], theirs: list[int]) -> bool:
    """Return whether heed's logits of the first different tokens differ by less than `TIE`."""
    ours, theirs = [*ours, EOS], [*theirs, EOS]
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if first is None:  # cut at different lengths
        return False
    src, src_mask = pad([[*source, EOS]], translator.model.device)
    tgt_in, _ = pad([[BOS, *ours[:first]]], translator.model.device)
    logits = translator.model(src, src_mask, tgt_in)[0, -1]
    return abs(float(logits[ours[first]] - logits[theirs[first]])) < TIE


def _bleu(
    tokenizer: Tokenizer, ours: Ids, theirs: Ids, references: list[str] | None, tgt_lang: str
) -> tuple[float, float] | None:
    if references is None:
        return None
    before, after = (
        corpus_scores(tokenizer.decode_tgt(ids), references, tgt_lang=tgt_lang).bleu for ids in (ours, theirs)
    )
    return before, after
