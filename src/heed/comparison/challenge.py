"""Contrastive accuracy: how often a model prefers the correct translation to a minimally wrong one (Sennrich 2017)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from heed.comparison.runs import Side
from heed.data.text.formats.files import read_lines
from heed.errors import HeedError, argument
from heed.files import built_in_corpus

if TYPE_CHECKING:
    from heed.inference.translator import Translator

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


def prefers_good(translator: "Translator", contrasts: Sequence[ContrastivePair]) -> list[bool]:
    """Return whether the log-probability, summed over tokens, prefers the good translation of each; ties are wrong."""
    sources = [contrast.src for contrast in contrasts]
    good = translator.score(sources, [contrast.good for contrast in contrasts])
    bad = translator.score(sources, [contrast.bad for contrast in contrasts])
    return [better > worse for better, worse in zip(good, bad, strict=True)]


def contrastive_accuracy(translator: "Translator", contrasts: Sequence[ContrastivePair]) -> dict[str, Accuracy]:
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
