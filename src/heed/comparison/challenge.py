"""What needs the models themselves: contrastive accuracy and attention maps.

Contrastive accuracy says how often a model prefers the correct translation to a minimally wrong one (Sennrich 2017).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from heed.comparison.comparison import Comparison
from heed.comparison.runs import Side
from heed.data.text.formats.files import read_lines
from heed.errors import HeedError, argument
from heed.evaluation.words import AttentionMap, split_words
from heed.files import built_in_corpus
from heed.inference.loading import load
from heed.inference.outputs import choose_extraction, word_maps
from heed.inference.translator import Translator
from heed.progress import progress_bar

CONTRASTS_PER_TAG = 200
"""Sentences per phenomenon from the built-in challenge set: enough to distinguish 60 % accuracy from chance."""


@dataclass(frozen=True)
class ContrastivePair:
    """A source with a correct translation and a minimally different wrong one that has the other reading."""

    src: str
    good: str
    bad: str
    tag: str
    """The phenomenon, such as "pronoun"."""
    antecedent: Mapping[str, int] | None = None
    """Source positions of "pronoun", and of its "right" and "wrong" antecedent; None if no pronoun is annotated."""


CONTRAST = TypeAdapter(ContrastivePair)


@dataclass(frozen=True)
class Accuracy:
    """The number of contrastive pairs for which a model prefers the correct translation."""

    right: int
    total: int

    @property
    def fraction(self) -> float:
        """The accuracy, from 0 to 1; chance is 0.5."""
        return self.right / self.total


def prefers_good(translator: Translator, contrasts: Sequence[ContrastivePair]) -> list[bool]:
    """Return whether the log-probability, summed over tokens, prefers the good translation of each; ties are wrong."""
    sources = [contrast.src for contrast in contrasts]
    good = translator.score(sources, [contrast.good for contrast in contrasts])
    bad = translator.score(sources, [contrast.bad for contrast in contrasts])
    return [better > worse for better, worse in zip(good, bad, strict=True)]


def contrastive_accuracy(translator: Translator, contrasts: Sequence[ContrastivePair]) -> dict[str, Accuracy]:
    """Return by tag how often the model prefers the good translation, see `prefers_good`."""
    total = Counter(contrast.tag for contrast in contrasts)
    right = Counter(c.tag for c, good in zip(contrasts, prefers_good(translator, contrasts), strict=True) if good)
    return {tag: Accuracy(right[tag], total[tag]) for tag in total}


def choose_challenge(challenge: str | None, sides: Sequence[Side]) -> tuple[str, Sequence[ContrastivePair]]:
    """Return the name and the pairs of the challenge set, which may be empty.

    Args:
        challenge: a file; "none" for no challenge set; None for the built-in one if all runs were trained on the
            built-in corpus, and no challenge set otherwise.
    """
    if challenge == "none":
        return "", []
    if challenge:
        return challenge, read_challenge(Path(challenge))
    runs = [run for side in sides for run in side.runs]
    corpora = [[run.results.get(key) for key in ("data", "src_lang", "tgt_lang")] for run in runs]
    if any(corpus != ["synthetic", "en", "de"] for corpus in corpora) or not any(run.has_model for run in runs):
        return "", []
    return "the built-in challenge set", built_in_challenge(CONTRASTS_PER_TAG)


def built_in_challenge(per_tag: int) -> list[ContrastivePair]:
    """Return the first pairs of every phenomenon of the built-in challenge set, which has 400 of each.

    No source is in the built-in corpus. The pairs come in twins: the correct reading of one is wrong in the other, so a
    constant preference scores exactly 50 %.
    """
    found: dict[str, list[ContrastivePair]] = {}
    for contrast in read_challenge(built_in_corpus() / "challenge.jsonl.gz"):
        found.setdefault(contrast.tag, []).append(contrast)
    return [contrast for contrasts in found.values() for contrast in contrasts[:per_tag]]


def read_challenge(path: Path) -> list[ContrastivePair]:
    """Read a challenge set in JSONL, which may be compressed.

    Each line is an object with the strings "src", "good", "bad" and "tag".

    Raises:
        HeedError: The file cannot be read, has no contrastive pairs, or has a line of another form.
    """
    try:
        lines = list(read_lines(path, lambda _: None))
    except HeedError as error:
        raise HeedError(f"{argument('challenge', path)} cannot be read: {error}") from error
    contrasts = []
    for number, line in enumerate(lines, start=1):
        try:
            contrasts += [CONTRAST.validate_json(line)] if line.strip() else []
        except ValidationError as error:
            raise HeedError(
                f'Line {number} of {path} is not a contrast: write a JSON object with the strings "src", "good", '
                '"bad" and "tag".'
            ) from error
    if not contrasts:
        raise HeedError(f"{path} has no contrasts: write at least one line.")
    return contrasts


# ---- the models of a comparison


@dataclass(frozen=True)
class WordMap:
    """The cross-attention of one sentence pair over words."""

    src_words: list[str]
    tgt_words: list[str]
    weights: AttentionMap  # "T S"; a row sums to at most 1, because attention on EOS belongs to no word


@dataclass(frozen=True)
class Evidence:
    """The results of all models, by side. Sides without models have an empty list or None."""

    challenge: str  # the name of the challenge set
    accuracy: Sequence[Sequence[Mapping[str, Accuracy]]]  # by side and run, by tag
    maps: Sequence[Sequence[WordMap] | None]  # by side, by example
    extractions: Sequence[str]  # by side, the layer and head of the maps, or the reason why there are none


def collect_evidence(
    comparison: Comparison, sides: Sequence[Side], challenge: str, contrasts: Sequence[ContrastivePair]
) -> tuple[Evidence, list[str]]:
    """Run every model that can be loaded on the challenge set, and the first of each side on the examples.

    Returns:
        The evidence, and a warning for each model that could not be used.
    """
    accuracy, maps, extractions, warnings = [], [], [], []
    for number, side in enumerate(sides):
        found = []
        for run in side.runs:
            is_first = run is side.runs[0]
            pairs = [(each.source, each.translations[number]) for each in comparison.examples] if is_first else []
            try:
                if run.has_model:
                    found.append(evaluate_model(run.path, contrasts, pairs, run.direction(comparison.split)))
            except HeedError as error:
                # For example a model of another version of heed. Its translations can still be compared.
                warnings.append(f"The model of {run.path} was not used: {error}")
        accuracy.append([of_run for of_run, _, _ in found if of_run])
        side_maps, extraction = next(((maps, how) for _, maps, how in found if how), (None, ""))
        maps.append(side_maps)
        extractions.append(extraction)
    return Evidence(challenge, accuracy, maps, extractions), warnings


def evaluate_model(
    run: Path, contrasts: Sequence[ContrastivePair], pairs: Sequence[tuple[str, str]], direction: str | None
) -> tuple[dict[str, Accuracy], list[WordMap] | None, str]:
    """Evaluate one model on contrastive pairs and (source, translation) pairs, these in a direction of the model.

    Returns:
        The accuracy by tag; the attention map of each (source, translation) pair, or None; and the layer and head of
        the maps, which the model folder's ``alignment`` section selects, or the reason why there are none.
    """
    translator = load(run, max_tokens=None)
    # A contrastive pair is scored twice: the good and the bad translation.
    total = 2 * len(contrasts) + len(pairs)
    with progress_bar(f"Challenge set and attention maps of {run}", total=total, unit="sentences") as bar:
        translator.on_batch = bar.update
        accuracy = contrastive_accuracy(translator, contrasts) if contrasts else {}
        reader = translator.in_direction(direction)
        reader.on_batch = bar.update
        attended = reader.attend([src for src, _ in pairs], [tgt for _, tgt in pairs]) if pairs else []
    if not attended or attended[0].cross is None:
        return accuracy, None, "no cross-attention" if attended else ""
    extraction = choose_extraction(translator.alignment, attended[0])
    maps = [
        WordMap(split_words(pair.source), split_words(pair.target), word_maps(pair)[extraction.index])
        for pair in attended
    ]
    return accuracy, maps, str(extraction)
