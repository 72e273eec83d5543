"""Compare an exported model with heed's own: translations and scores."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import BeamSearch, GreedySearch, Search
from heed.errors import HeedError
from heed.evaluation.scores import corpus_scores
from heed.inference.engine import Engine
from heed.inference.searches import LENGTH_LIMITS
from heed.inference.translator import Translator
from heed.runs.folder import validation_files
from heed.symbols import EOS

CHECKED_SENTENCES = 200
"""Largest number of sentences in a check."""

SCORE_TOLERANCE = 1e-3
"""Largest difference of a log-probability, in nats."""

TIE = 1e-3
"""Two tokens whose logits differ by less than this are a tie: rounding decides which one greedy search chooses."""

Ids = list[list[int]]


class ExportedEngine(Engine):
    """An exported model."""

    @abstractmethod
    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        """Return log p(target, EOS | source) in nats. Source and target are ids without EOS."""


@dataclass(frozen=True)
class CheckSet:
    """The sentences of a check."""

    sources: list[str]
    references: list[str] | None
    name: str
    """Name of the set in the report. It is published with the export, so it contains no path."""


@dataclass(frozen=True)
class ParityReport:
    """The comparison of an exported model with heed's."""

    name: str
    """See `CheckSet`."""
    sentences: int
    equal: int
    """Sentences with the same greedy translation."""
    ties: int
    """Sentences whose first different token is a tie (`TIE`)."""
    score_difference: float
    """Largest difference of log p of heed's beam search results, in nats."""
    bleu: tuple[float, float] | None
    """BLEU of greedy translations by heed and by the export; None without references."""

    def lines(self) -> list[str]:
        """Return the report as text."""
        found = f"{self.equal} of {self.sentences} greedy translations are equal"
        found += f", {self.ties} differ by a tie" if self.ties else ""
        lines = [f"check on {self.name}: {found}; beam scores differ by at most {self.score_difference:.1e}"]
        if self.bleu is not None:
            ours, theirs = self.bleu
            lines.append(f"BLEU (greedy): {ours:.2f} before, {theirs:.2f} after, {theirs - ours:+z.2f}")
        return lines


def validation_set(run: Path, directions: Sequence[str]) -> CheckSet:
    """Return the beginning of the validation set of a run or of its model folder, in the first of its directions.

    Raises:
        HeedError: if the run has no validation set.
    """
    files = validation_files(run, directions).get(directions[0])
    if files is None:
        raise HeedError(
            f"{run} has no validation set of {directions[0]} (translations/valid.src) to check the export with: give "
            "sentences with --check FILE."
        )
    return check_set("the validation set", *(file.read_text(encoding="utf-8").split("\n") for file in files))


def check_set(name: str, sources: Sequence[str], references: Sequence[str] | None = None) -> CheckSet:
    """Return the first sentences that are not blank; raise a HeedError if there are none."""
    rows = [row for row in zip(sources, references or sources, strict=False) if row[0].strip()][:CHECKED_SENTENCES]
    if not rows:
        raise HeedError(f"{name} has no sentence to check the export with.")
    return CheckSet([src for src, _ in rows], [ref for _, ref in rows] if references else None, name)


def random_set(tokenizer: Tokenizer) -> CheckSet:
    """Return sentences of 1 to 16 random source subwords."""
    random = Random(0)
    ids = range(EOS + 1, tokenizer.src_vocab)
    rows = [random.choices(ids, k=random.randint(1, 16)) for _ in range(CHECKED_SENTENCES)]
    return check_set("random subwords", tokenizer.decode_src(rows))


def compare_engines(
    translator: Translator, engine: ExportedEngine, check: CheckSet, *, is_exact: bool = True
) -> ParityReport:
    """Translate and score the sentences with both engines, and compare the results.

    Raises:
        HeedError: with ``is_exact`` (weights are not quantized), if translations differ and are not ties, or if scores
            differ by more than `SCORE_TOLERANCE`.
    """
    sources = translator.tokenizer.encode_src(check.sources)
    limits: Any = {name: getattr(translator.search, name) for name in LENGTH_LIMITS}
    greedy, beam = GreedySearch(**limits), BeamSearch(beam=5, length_penalty=0.0, n_best=1, **limits)
    ours, theirs = (
        [n_best[0].tokens for n_best in each.translate_ids(sources, search=greedy)]
        for each in (translator, translator.with_engine(engine))
    )
    different = [row for row in range(len(sources)) if ours[row] != theirs[row]]
    bleu = None
    if check.references:
        texts = map(translator.tokenizer.decode_tgt, (ours, theirs))
        before, after = (corpus_scores(text, check.references, tgt_lang=translator.tgt_lang).bleu for text in texts)
        bleu = before, after
    report = ParityReport(
        check.name,
        sentences=len(sources),
        equal=len(sources) - len(different),
        ties=sum(_is_tie(translator, sources[row], ours[row], theirs[row]) for row in different),
        score_difference=_score_difference(translator, engine, sources, beam),
        bleu=bleu,
    )
    if is_exact and (report.equal + report.ties < len(sources) or not report.score_difference <= SCORE_TOLERANCE):
        raise HeedError(
            f"The export was not written: its translations or scores differ from heed's ({report.lines()[0]}). This is "
            "a bug in heed: please report it with the model's config.yaml."
        )
    return report


def _score_difference(translator: Translator, engine: ExportedEngine, sources: Ids, beam: Search) -> float:
    """Return the largest difference between both engines' log p of heed's beam search results."""
    best = [n_best[0] for n_best in translator.translate_ids(sources, search=beam)]
    # Score a result that was cut at the length limit as if it ended before its last token.
    targets = [each.tokens if each.finished else each.tokens[:-1] for each in best]
    pairs = [(source, target) for source, target in zip(sources, targets, strict=True) if source]
    ours = translator.score_ids([[*source, EOS] for source, _ in pairs], [[*target, EOS] for _, target in pairs])
    return max((abs(own - engine.score(*pair)) for own, pair in zip(ours, pairs, strict=True)), default=0.0)


def _is_tie(translator: Translator, source: list[int], ours: list[int], theirs: list[int]) -> bool:
    """Return whether heed's log p of the first two different tokens differ by less than `TIE`."""
    ours, theirs = [*ours, EOS], [*theirs, EOS]
    first = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if first is None:  # cut at different lengths
        return False
    own, other = translator.score_ids([[*source, EOS]] * 2, [ours[: first + 1], theirs[: first + 1]])
    return abs(own - other) < TIE
