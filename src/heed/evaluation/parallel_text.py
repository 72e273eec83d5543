"""Faults of parallel text that a model would learn or scores would hide, found by statistics, in any two languages."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from heed.characters import PROTECTED, find_invisible, has_no_break_space, normalized, scripts
from heed.evaluation.words import casefolded_words

Matrix = npt.NDArray[np.floating[Any]]

ENOUGH = 200  # pairs from which on statistics are reliable
CERTAIN = 8.0  # log-odds, of source and target together, from which on the languages of a pair are certain
WORDS = 400  # frequent words of each side, whose co-occurrence shows which sentences belong together
WINDOW = 50  # consecutive pairs that are tested together for a shift
OFFSETS = (0, 1, -1, 2, -2, 3, -3)  # lines by which targets may be shifted
COMMON = (30, 10)  # frequent words of a language: sentences of `LONG` words without one of them are few
LONG = 5  # words of a sentence from which on it tells its language
FEW = 10  # sentences from which on a third language can be told from names, and a repeated line from chance

TAG_OR_ENTITY = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>|&([a-z]{2,8}|#x?[0-9a-f]{1,6});", re.IGNORECASE)
SEGMENTED = re.compile(r"\S@@(\s|$)|(^|\s)(▁\S|##[^\W\d_])|￭|Ġ.*Ġ.*Ġ")  # as others cut; Ġ is a letter of Maltese
NUMBER = re.compile(r"\W{0,2}(\d{1,9})\b")  # at the start of a line: 7 … 7. … (7) …
WESTERN = re.compile("[\xa0-\u017f\u1ea0-\u1ef9\u2010-\u2044€™\ufeff]+")  # what may be a single misread character


def _is_misread(line: str) -> bool:
    """Return whether letters are lost (U+FFFD), or UTF-8 was read in an 8-bit encoding."""
    for before, run, after in re.findall(r"([A-Za-z]*)([^\x00-\x7f]{2,})(?=([A-Za-z]*))", line):
        word = before + run + after
        for encoding in ("cp1252", "latin-1", "mac_roman", "cp437", "cp850", "cp1250", "cp1251"):
            with suppress(UnicodeError):
                text = run.encode(encoding).decode()
                rare = len(run) == 2 and run[0].isalpha() and (run.isalpha() or encoding in ("cp1250", "cp1251"))
                # CZĘŚCI, AMANHÃ”, Ті and В» can be read as UTF-8, but StraĂźe and fГјr have capitals inside a word.
                is_word = (before and word.isupper()) or (rare and word in (word.lower(), word.title(), word.upper()))
                is_one_script = sum(map(str.isalpha, text)) > 1 == len(scripts([text])) and min(text) >= "\xa0"
                if is_one_script or (WESTERN.fullmatch(text) and not is_word):
                    return True
    return "\ufffd" in line


LINES: Mapping[str, Callable[[str], object]] = {
    "encoding": _is_misread,
    "markup": TAG_OR_ENTITY.search,
    "segmented": SEGMENTED.search,
    "tabs": lambda line: "\t" in line.strip(),
    "invisible": find_invisible,
    "spaces": lambda line: "  " in line.strip() or has_no_break_space(line),
    "decomposed": lambda line: not unicodedata.is_normalized("NFC", line),
}
"""Faults of a line on either side."""
WRITING: Mapping[str, Callable[[str], bool]] = {
    "upper_case": lambda line: line != line.lower(),
    "punctuation": lambda line: re.search(r" [.,。](\s|$)", line) is not None,  # French has spaces before ! and ?
}
"""Ways of writing that a training text and a set that is scored should share."""


class Fault(NamedTuple):
    """A fault of a text."""

    name: str  # in ``diagnoses.toml``
    share: float  # fraction of the pairs that have it
    rows: Sequence[int] = ()  # these pairs
    split: str = ""  # the validation or test set; "" is the training text

    @property
    def pairs(self) -> str:
        """What messages call the pairs of the text."""
        names = {"": "training pairs", "valid": "validation pairs", "test": "test pairs"}
        names |= {side: side for side in ("translations", "references")}
        return names.get(self.split, f"pairs of {self.split}")

    @property
    def percent(self) -> str:
        """The fraction of the pairs, never rounded to 0."""
        return f"{100 * self.share:.3g}%"


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
            counts = [(src[w] - own[0], tgt[w] - own[1]) for w in words]
            if 2 * counts.count((0, 0)) > len(counts):
                return 0.0
            return sum(math.log((a + 0.5) / src_total * tgt_total / (b + 0.5)) for a, b in counts)

        odds = np.array([(log_odds(a, 0), log_odds(b, 1)) for a, b in zip(*text.words, strict=True)]).reshape(-1, 2)
        least = np.where(odds[:, 0] * odds[:, 1] < 0, CERTAIN / 4, CERTAIN / 2)  # names make both sides alike
        certain = (np.abs(odds).min(1) >= least) & (np.abs(odds).sum(1) >= CERTAIN)
        return [(int(a), int(b)) for a, b in np.sign(odds) * certain[:, None]]

    @cached_property
    def associations(self) -> "Associations":
        """Which words of the two sides occur together."""
        words = [[word for word, _ in counts.most_common(WORDS)] for counts in self.counts]
        src, tgt = map(_presence, self.words, words)
        shifted = {offset: np.roll(tgt, -offset, 0) for offset in OFFSETS}
        # Associations of every other pair, measured on the remaining ones.
        halves = {offset: _association(src[::2], target[::2]) for offset, target in shifted.items()}
        gains = {offset: _gains(src[1::2], shifted[offset][1::2], weights).mean() for offset, weights in halves.items()}
        best = max(OFFSETS, key=lambda offset: gains[offset])
        best = best if gains[best] > max(0.1, 1.2 * gains[0]) else 0
        return Associations(words, best, _association(src, shifted[best]), halves[best], float(gains[best]))


class Associations(NamedTuple):
    """Associations of the most frequent words of sources with those of targets that are shifted by ``offset`` lines."""

    words: Sequence[Sequence[str]]
    offset: int
    weights: Matrix
    half: Matrix  # the weights in every other pair
    gain: float  # how much more the other half is associated with its own targets than with distant ones, on average


def find_faults(text: Sides, other: Sides, split: str = "") -> list[Fault]:
    """Return the faults of a text.

    Args:
        text: some thousand consecutive training pairs, or a set that is scored.
        other: what it is compared with: for training text the validation set, for a set training text. Statistics are
            learned from the training text. It may be empty.
        split: name of the set; "" for training text.
    """
    learned = other if split else text
    pairs = list(zip(text.src, text.tgt, strict=True))
    compared = [(normalized(src), normalized(tgt)) for src, tgt in pairs]
    first: dict[tuple[str, str], int] = {}
    rows = {name: [row for row, pair in enumerate(pairs) if any(map(has, pair))] for name, has in LINES.items()}
    rows["duplicates"] = [row for row, pair in enumerate(compared) if first.setdefault(pair, row) != row]
    rows["empty"] = [row for row, pair in enumerate(compared) if not all(pair)]
    rows["numbered"] = sorted({*_find_numbered(text.src), *_find_numbered(text.tgt)})
    rows["constant"] = _find_constant(text, compared)
    copied = {row for row, (src, tgt) in enumerate(compared) if src == tgt and len(text.words[0][row]) >= LONG}
    whole: dict[str, float] = {}
    if len(learned) >= ENOUGH:
        languages = learned.languages(text)
        rows["swapped"] = [row for row, sides in enumerate(languages) if sides == (-1, 1) and row not in copied]
        copied |= {row for row, (src, tgt) in enumerate(languages) if src == tgt != 0}
        if not _is_cut(text, other):
            rows["third_language"] = sorted({row for side in (0, 1) for row in _find_foreign(text, learned, side)})
        rows["shifted"], whole["unrelated"] = _find_misaligned(text, other, learned)
        copied -= {*rows.get("third_language", ()), *rows["constant"]}
    rows["untranslated"] = sorted(copied)
    for lines, trained in ((text.src, other.src), (text.tgt, other.tgt)):
        whole |= dict.fromkeys(_find_writing(lines, trained if split else []), 1.0)
    spans = ((set(PROTECTED.findall(src)), tgt) for src, tgt in ([] if split else pairs))
    rows["protected"] = [row for row, (own, tgt) in enumerate(spans) if own and own & set(PROTECTED.findall(tgt))]
    for name in ("segmented", "protected"):  # "@@" also occurs in text about programs, and some addresses in any text
        if len(rows[name]) <= 0.05 * len(text):
            del rows[name]
    faults = [Fault(name, len(found) / len(text), found, split) for name, found in rows.items() if found]
    return faults + [Fault(name, float(share), split=split) for name, share in whole.items() if share]


def _is_cut(text: Sides, other: Sides) -> bool:
    """Return whether the lines of one side are far shorter in one of the texts: they lack frequent words, too."""
    ratio = text.length_ratio / other.length_ratio
    return min(len(text), len(other)) >= FEW and not 0.7 <= ratio <= 1 / 0.7


def _find_writing(lines: Sequence[str], trained: Sequence[str]) -> Iterator[str]:
    """Yield how a side is not written as raw text, nor as the same side of the training text, which may be empty."""
    upper, spaced = (sum(map(has, lines)) / max(1, len(lines)) for has in WRITING.values())
    if spaced > 0.5:
        yield "tokenized"
    if not upper and 2 * sum(line != line.upper() for line in lines) > len(lines):
        yield "lower_cased"
    if min(len(lines), len(trained)) < 20:
        return
    known = scripts(trained)
    if 2 * sum(not scripts([line]) <= known for line in lines) > len(lines):
        yield "script"
    for (name, has), share in zip(WRITING.items(), (upper, spaced), strict=True):
        if abs(sum(map(has, trained)) / len(trained) - share) > 0.5:
            yield name


def _find_numbered(lines: Sequence[str]) -> list[int]:
    """Return the lines that begin with the number after the one of the line before, if most lines do."""
    numbers = [float(found[1]) if (found := NUMBER.match(line)) else math.nan for line in lines]
    rows = [row for row in range(1, len(lines)) if numbers[row] == numbers[row - 1] + 1]
    return rows if 2 * len(rows) > len(lines) else []


def _find_constant(text: Sides, compared: Sequence[tuple[str, str]]) -> list[int]:
    """Return the pairs in which many different sentences have the same line of one or two words on the other side."""
    found = set[int]()
    for side in (0, 1):
        sizes = [(len(own), len(other)) for own, other in zip(text.words[side], text.words[1 - side], strict=True)]
        unequal = [row for row, (own, other) in enumerate(sizes) if compared[row][side] and 2 * own < LONG <= other]
        repeated = Counter(pair[side] for pair in {compared[row] for row in unequal})
        found.update(row for row in unequal if repeated[compared[row][side]] >= max(FEW, 0.01 * len(text)))
    return sorted(found)


def _find_foreign(text: Sides, learned: Sides, side: int) -> list[int]:
    """Return the sentences of a side that are in a third language.

    The first candidates have no frequent word of their side, while the other side has some: lists of names have none
    on either side. Then candidates are the sentences whose words are those of the candidates. Their language is another
    one, not only their topic, if most of their words occur nowhere else.
    """
    parts = (text,) if text is learned else (text, learned)
    sentences, others = ([words for part in parts for words in part.words[n]] for n in (side, 1 - side))
    counts, known = (sum((part.counts[n] for part in parts), Counter[str]()) for n in (side, 1 - side))
    total, known_total, best = counts.total(), known.total(), list[int]()
    for number in COMMON:
        common, usual = ({word for word, _ in learned.counts[n].most_common(number)} for n in (side, 1 - side))
        found = [
            row
            for row, (words, other) in enumerate(zip(sentences, others, strict=True))
            if len(words) >= LONG and words.isdisjoint(common) and len(other & usual) > 1
        ]
        own = Counter[str]()
        for _ in range(3):
            if not FEW <= len(found) <= len(sentences) / 4:
                found = []
                break
            own = Counter(word for row in found for word in sentences[row])
            size, odds = own.total(), {}
            for word, count in counts.items():
                elsewhere = max((count - own[word]) / (total - size), known[word] / known_total)
                # Words of a single sentence are no evidence.
                odds[word] = math.log((max(own[word], 1) + 1) / size / (elsewhere + 2 / size))
            found = [row for row, words in enumerate(sentences) if sum(map(odds.__getitem__, words)) >= CERTAIN]
        repeated = {word: number for word, number in own.items() if counts[word] > 1}
        purity = sum(number**2 / counts[word] for word, number in repeated.items()) / max(1, sum(repeated.values()))
        if purity > 0.6 and len(found) > len(best):
            best = found
    return [row for row in best if row < len(text)]


# ---- which sentences belong together


def _find_misaligned(text: Sides, other: Sides, learned: Sides) -> tuple[list[int], float]:
    """Return the pairs whose lines are shifted, and the fraction of unrelated pairs, see `find_faults`."""
    words, offset, weights, half, gain = learned.associations
    src, tgt = map(_presence, text.words, words)
    related = src @ weights
    scores = {offset: _scores(related, src, np.roll(tgt, -offset, 0)) for offset in OFFSETS}
    if offset and text is learned:
        rows = {*range(len(text))}.difference(_find_segments(scores[0] - scores[offset]))
    else:
        rows = {row for offset in OFFSETS[1:] for row in _find_segments(scores[offset] - scores[0])}
    # Targets that are cut have few of the words that their sources are associated with.
    enough = min(len(text), len(other)) >= ENOUGH and len(learned) >= 5 * ENOUGH
    if rows or not enough or text.length_ratio < 0.7 * other.length_ratio:
        return sorted(rows), 0.0
    if text is learned:
        known_src, known_tgt = map(_presence, other.words, words)
        expected = _gains(known_src, known_tgt, half).mean()
        if expected > 0.2:
            unrelated = 1 - gain / expected
            return [], unrelated if unrelated > 0.3 else 0.0
        # A text in another order teaches nothing: ask the set.
        words, _, _, half, gain = other.associations
        src, tgt = map(_presence, text.words, words)
    # Sentences about other things have fewer associated words, so that only a text without any association is certain.
    gains, known = _gains(src, tgt, half), src.any(1) & tgt.any(1)
    is_unrelated = gain > 0.2 and known.mean() > 0.5 and gains.mean() < 3 * gains.std() / math.sqrt(len(text))
    return [], float(is_unrelated)


def _find_segments(gain: Matrix) -> Iterator[int]:
    """Yield the rows of all segments that gain: around windows that certainly do, as far as their sum grows."""
    width = min(WINDOW, len(gain))
    total, squares = (np.insert(values, 0, 0.0).cumsum() for values in (gain.astype(float), gain.astype(float) ** 2))
    mean = (total[width:] - total[:-width]) / width
    variance = (squares[width:] - squares[:-width]) / width - mean**2
    certain = mean > np.maximum(5 * np.sqrt(variance.clip(0) / width), 1e-6)
    while certain.any() and width >= 20:
        window = int(np.where(certain, mean, -np.inf).argmax())
        middle, fall = window + width // 2, mean[window] * width / 2
        start, stop = middle - _reach(-total[middle::-1], fall), middle + _reach(total[middle:], fall)
        yield from range(start, stop)
        certain[max(0, start - width + 1) : stop] = False


def _reach(total: Matrix, fall: float) -> int:
    """Return where a cumulative sum is largest, before the first place where it is ``fall`` less than before."""
    fallen = np.flatnonzero(np.maximum.accumulate(total) - total > fall)
    return int(total[: fallen[0] if len(fallen) else None].argmax())


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


def _gains(src: Matrix, tgt: Matrix, weights: Matrix) -> Matrix:
    """Return how much more each sentence is associated with its own target than with a distant one."""
    related = src @ weights
    return _scores(related, src, tgt) - _scores(related, src, np.roll(tgt, len(tgt) // 3, 0))
