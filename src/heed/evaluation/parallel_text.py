"""Faults of parallel text that a model would learn, found by statistics of the text itself, in any two languages."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heed.characters import normalized
from heed.evaluation.symptoms import scripts
from heed.evaluation.words import casefolded_words

Matrix = npt.NDArray[np.floating[Any]]

ENOUGH = 200
"""Pairs from which on statistics are reliable."""
CERTAIN = 8.0
"""Log-odds, of source and target together, from which on the languages of a pair are certain."""
WORDS = 400
"""The most frequent words of each side, whose co-occurrence shows which sentences belong together."""
WINDOW = 50
"""Consecutive pairs that are tested together for a shift."""
OFFSETS = (0, 1, -1, 2, -2, 3, -3)
"""Lines by which targets may be shifted."""

MARKUP = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>|&([a-z]{2,8}|#x?[0-9a-f]{1,6});", re.IGNORECASE)
"""HTML tags and character references."""

WRITING: Mapping[str, Callable[[str], bool]] = {
    "upper_case": lambda line: line != line.lower(),
    "punctuation": lambda line: re.search(r" [.,!?](\s|$)", line) is not None,
}
"""Ways of writing that a training text and a validation set should share."""


class Fault(NamedTuple):
    """A fault of a text: its name in ``diagnoses.toml``, the fraction of the pairs that have it, and these pairs."""

    name: str
    share: float
    rows: Sequence[int] = ()


@dataclass(frozen=True)
class Sides:
    """Parallel sentences, with their sets of words and the number of sentences that have each word, for each side."""

    src: Sequence[str]
    tgt: Sequence[str]

    def __len__(self) -> int:
        return len(self.src)

    @property
    def length_ratio(self) -> float:
        """Characters of the targets per character of the sources."""
        src, tgt = (max(1, sum(map(len, side))) for side in (self.src, self.tgt))
        return tgt / src

    @cached_property
    def words(self) -> list[list[set[str]]]:
        return [[set(casefolded_words(line)) for line in side] for side in (self.src, self.tgt)]

    @cached_property
    def counts(self) -> list[Counter[str]]:
        return [Counter(word for words in side for word in words) for side in self.words]

    def languages(self, text: "Sides") -> list[tuple[int, int]]:
        """Return for both sides of each pair whether they are in the language of these sources, 1, or targets, -1.

        Both are 0 if that is not certain.
        """
        (src, tgt), (src_total, tgt_total) = self.counts, (max(1, counts.total()) for counts in self.counts)

        def log_odds(words: set[str], side: int) -> float:
            own = [text is self and side == 0, text is self and side == 1]  # a sentence is no evidence for itself
            ratios = ((src[w] - own[0] + 0.5) / src_total * tgt_total / (tgt[w] - own[1] + 0.5) for w in words)
            return sum(map(math.log, ratios))

        odds = np.array([(log_odds(a, 0), log_odds(b, 1)) for a, b in zip(*text.words, strict=True)]).reshape(-1, 2)
        certain = (np.abs(odds).min(1) >= CERTAIN / 4) & (np.abs(odds).sum(1) >= CERTAIN)
        return [(int(a), int(b)) for a, b in np.sign(odds) * certain[:, None]]


def find_faults(text: Sides, valid: Sides) -> list[Fault]:
    """Return the faults of some thousand consecutive training pairs; the validation set ``valid`` may be empty."""
    pairs = list(zip(text.src, text.tgt, strict=True))
    compared = list(zip(map(normalized, text.src), map(normalized, text.tgt), strict=True))
    first = dict(zip(reversed(compared), reversed(range(len(compared))), strict=True))
    rows = {
        "encoding": [row for row, pair in enumerate(pairs) if any(map(_is_misread, pair))],
        "markup": [row for row, pair in enumerate(pairs) if any(map(MARKUP.search, pair))],
        "duplicates": [row for row, pair in enumerate(compared) if first[pair] != row],
        "empty_targets": [row for row, (_, tgt) in enumerate(compared) if not tgt],
    }
    whole: dict[str, float] = {}
    if len(text) >= ENOUGH:
        languages = text.languages(text)
        rows["swapped"] = [row for row, sides in enumerate(languages) if sides == (-1, 1)]
        rows["untranslated"] = [row for row, sides in enumerate(languages) if sides == (1, 1)]
        whole["swapped_validation"] = 2 * text.languages(valid).count((-1, 1)) > len(valid) > 0
        whole["shifted"], rows["shifted_lines"], whole["unrelated"] = _find_misaligned(text, valid)
    if min(len(text), len(valid)) >= 20:
        different = _differences(text.src, valid.src) + _differences(text.tgt, valid.tgt)
        whole |= dict.fromkeys(different, 1.0)
    faults = [Fault(name, len(found) / len(text), found) for name, found in rows.items() if found]
    return faults + [Fault(name, float(share)) for name, share in whole.items() if share]


def _differences(trained: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return in which respects one side of the validation set is written in another way than that of the text."""
    known = scripts(trained)
    found = ["script"] if 2 * sum(not scripts([line]) <= known for line in lines) > len(lines) else []
    for name, has in WRITING.items():
        before, now = (sum(map(has, side)) / len(side) for side in (trained, lines))
        found += [name] if abs(before - now) > 0.5 else []
    return found


def _is_misread(line: str) -> bool:
    """Return whether letters are lost (U+FFFD), or UTF-8 was read as Latin-1."""
    for run in re.findall(r"[^\x00-\x7f]{2,}", line):
        for encoding in ("cp1252", "latin-1"):
            with suppress(UnicodeError):
                run.encode(encoding).decode()
                return True
    return "\ufffd" in line


# ---- which sentences belong together


def _find_misaligned(text: Sides, valid: Sides) -> tuple[bool, list[int], float]:
    """Return whether all lines are shifted, the pairs in shifted windows, and the fraction of unrelated pairs."""
    frequent = [[word for word, _ in counts.most_common(WORDS)] for counts in text.counts]
    src, tgt = map(_presence, text.words, frequent)
    shifted = {offset: np.roll(tgt, -offset, 0) for offset in OFFSETS}
    # Associations of every other pair, measured on the remaining ones.
    learned = {offset: _association(src[::2], target[::2]) for offset, target in shifted.items()}
    related = {offset: _contrast(src[1::2], shifted[offset][1::2], weights) for offset, weights in learned.items()}
    if max(related.values()) > max(0.1, 1.2 * related[0]):
        return True, [], 0.0
    own = src @ _association(src, tgt)
    scores = {offset: _scores(own, src, target) for offset, target in shifted.items()}
    rows: list[int] = []
    for start in range(0, len(text) - WINDOW + 1, WINDOW):
        gains = [(scores[offset] - scores[0])[start : start + WINDOW] for offset in OFFSETS]
        if any(gain.mean() > max(5 * gain.std() / math.sqrt(WINDOW), 1e-6) for gain in gains):
            rows += range(start, start + WINDOW)
    # Targets that are cut have few of the words that their sources are associated with.
    if rows or min(len(text) / 5, len(valid)) < ENOUGH or text.length_ratio < 0.7 * valid.length_ratio:
        return False, rows, 0.0
    known = [_presence(side, words) for side, words in zip(valid.words, frequent, strict=True)]
    expected = _contrast(known[0], known[1], learned[0])
    unrelated = 1 - related[0] / expected if expected > 0.2 else 0.0
    return False, [], unrelated if unrelated > 0.3 else 0.0


def _presence(side: Sequence[set[str]], vocabulary: Sequence[str]) -> Matrix:
    """Return which words each sentence has."""
    columns = {word: column for column, word in enumerate(vocabulary)}
    found = np.zeros((len(side), len(vocabulary)), np.float32)
    for row, words in zip(found, side, strict=True):
        row[[columns[word] for word in words if word in columns]] = 1
    return found


def _association(src: Matrix, tgt: Matrix) -> Matrix:
    """Return the positive pointwise mutual information of source and target words (Church & Hanks 1990, eq. 1)."""
    together, expected = src.T @ tgt, np.outer(src.sum(0), tgt.sum(0)) / len(src)
    return np.log(np.where(together >= 3, together / np.maximum(expected, 1e-9), 1)).clip(0)


def _scores(related: Matrix, src: Matrix, tgt: Matrix) -> Matrix:
    """Return the sum of the associations ``related`` of each source with its target words, by their number."""
    return np.asarray((related * tgt).sum(1) / np.maximum(np.maximum(src.sum(1), tgt.sum(1)), 1))


def _contrast(src: Matrix, tgt: Matrix, weights: Matrix) -> float:
    """Return how much more sentences are associated with their own targets than with distant ones."""
    related = src @ weights
    return float((_scores(related, src, tgt) - _scores(related, src, np.roll(tgt, len(tgt) // 3, 0))).mean())
