"""Constraints in words: a prefix with which a translation begins, and terms that it contains.

`Terms` are those of a glossary. `Writing` turns words into constraints over the pieces of a vocabulary.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from heed.characters import normalized
from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding.constraints import Constraint, Forbidden, Prefix, PrefixText, Vocabulary
from heed.errors import HeedError
from heed.evaluation.words import CASEFOLDED_WORD, SPACELESS_LETTERS
from heed.symbols import EOS, UNK, WORD_START_BYTE

UNK_TEXT = " \u2047 "  # as SentencePiece writes UNK
ANY_LETTER = b"\xfd"  # stands for any letter: it occurs in no text
SPACELESS = f"[{SPACELESS_LETTERS}]"
PART = re.compile(rf"{CASEFOLDED_WORD.pattern}|\S")
"""A word, or a symbol."""


@dataclass(frozen=True)
class Term:
    """Source words, and their translations: one of them must occur.

    A source in lower case is found in any case, another one as it is written. A target in lower case may also begin
    with a capital.
    """

    source: str
    targets: tuple[str, ...]


class Terms:
    """A list of terms, and those of a sentence. Terms may overlap: the longest one that begins first counts."""

    def __init__(self, terms: Iterable[Term]) -> None:
        self._by_parts: defaultdict[tuple[str, ...], list[Term]] = defaultdict(list)
        for term in terms:
            self._by_parts[tuple(_parts(term.source.casefold()))].append(term)
        self._longest = max(map(len, self._by_parts), default=0)

    @classmethod
    def read(cls, path: str | Path) -> "Terms":
        """Read a file of lines ``SOURCE<tab>TARGET``, several targets with | in between.

        Raises:
            HeedError: if a line is no term.
        """
        terms = []
        for number, line in enumerate(Path(path).read_text(encoding="utf-8-sig").split("\n"), 1):
            if not line.strip():
                continue
            source, tab, targets = line.partition("\t")
            found = tuple(filter(None, map(str.strip, targets.split("|"))))
            if not (source.strip() and tab and found):
                raise HeedError(
                    f"{path}, line {number} is no term: give the source words, a tab, and the target words (several "
                    "with | in between)."
                )
            terms.append(Term(source.strip(), found))
        return cls(terms)

    @classmethod
    def of(cls, terms: "TermsInput") -> "Terms":
        """Return terms from a mapping of source words to target words, or to several of them; None: no terms."""
        if isinstance(terms, Terms):
            return terms
        pairs = ((source, (each,) if isinstance(each, str) else tuple(each)) for source, each in (terms or {}).items())
        return cls(Term(source, targets) for source, targets in pairs)

    def __bool__(self) -> bool:
        return bool(self._by_parts)

    def in_sentence(self, sentence: str) -> list[Term]:
        """Return the terms whose source occurs in a sentence, in this order."""
        words = _parts(normalized(sentence))
        folded = [word.casefold() for word in words]
        found, start = dict[Term, None](), 0
        while start < len(words):
            lengths = range(min(self._longest, len(words) - start), 0, -1)
            fitting = (
                (length, term)
                for length in lengths
                for term in self._by_parts.get((*folded[start : start + length],), ())
            )
            chosen = next((each for each in fitting if _fits(each[1].source, words[start : start + each[0]])), None)
            if chosen is None:
                start += 1
                continue
            start += chosen[0]
            found[chosen[1]] = None
        return list(found)


TermsInput = Terms | Mapping[str, str | Sequence[str]] | None


def _parts(text: str) -> list[str]:
    return [match[0] for match in PART.finditer(text)]


def _fits(source: str, words: Sequence[str]) -> bool:
    return source == source.lower() or _parts(source) == [*words]


class Writing:
    """How terms are written in the pieces of a vocabulary.

    Args:
        encode: returns the pieces of a text, as the tokenizer of the target language does.
        unknown: returns the parts of a text that the vocabulary lacks.
    """

    def __init__(
        self,
        encode: Callable[[str], list[int]],
        vocabulary: Vocabulary,
        unknown: Callable[[str], list[str]] = lambda _: [],
    ) -> None:
        self.encode, self.vocabulary, self.unknown = encode, vocabulary, unknown

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Writing":
        """Return how the target language of a tokenizer is written."""
        vocabulary = Vocabulary(tokenizer.tgt_texts)
        return cls(lambda text: tokenizer.encode_tgt([text])[0], vocabulary, tokenizer.unknown_tgt)

    @staticmethod
    def restored(text: str, constraints: Sequence[Constraint]) -> str:
        """Return a translation with what the vocabulary lacks of its prefix."""
        for part in (part for each in constraints if isinstance(each, Prefix) for part in each.text.unknown):
            text = text.replace(UNK_TEXT, part, 1)
        return text

    def text(self, pieces: Sequence[int]) -> bytes:
        """Return the text of pieces."""
        return b"".join(self.vocabulary.pieces[piece] for piece in pieces)

    def prefix(self, text: str) -> list[Prefix]:
        """Return the constraint that a translation begins with a text, as the tokenizer normalises it; [] for no text.

        White space at the end of the text means that the last word is complete.
        """
        if not text.strip():
            return []
        end = WORD_START_BYTE if text[-1].isspace() else b""
        return [Prefix(PrefixText(self.vocabulary, self.text(self.encode(text)) + end, self.unknown(text)))]

    @cached_property
    def separating(self) -> Forbidden:
        """Which pieces begin with a character that ends a word."""
        return torch.tensor([bool(text) and not _is_letter(text[:4], 0) for text in self.vocabulary.pieces])

    def terms(self, terms: Sequence[Term]) -> list["UnmetTerms"]:
        """Return the constraint that each term has one of its targets in the translation; [] for no terms.

        Raises:
            HeedError: if the vocabulary cannot write a term.
        """
        found = [
            tuple(each for words in _spellings(term.targets) if UNK not in (each := Target(self, words)).pieces)
            for term in terms
        ]
        if () in found:
            targets = terms[found.index(())].targets
            lacking = ", ".join(dict.fromkeys(part.strip() for each in targets for part in self.unknown(each)))
            raise HeedError(f"The model cannot write the term {' | '.join(targets)}: its vocabulary lacks {lacking}.")
        return [UnmetTerms(self, tuple(found))] if found else []

    def spell(self, text: bytes) -> list[int]:
        """Return the longest pieces that write a text, from left to right."""
        pieces = []
        while text:
            piece = self.vocabulary.longest(text)
            if piece is None:
                return []
            pieces.append(piece)
            text = text[len(self.vocabulary.pieces[piece]) :]
        return pieces


def _spellings(targets: Sequence[str]) -> dict[str, None]:
    """Return the targets, and those in lower case with a capital too."""
    capital = (each[:1].upper() + each[1:] if each == each.lower() else each for each in targets)
    return dict.fromkeys(each for both in zip(targets, capital, strict=True) for each in both)


@dataclass(frozen=True, eq=False)
class Target:
    """The target words of a term in one spelling."""

    writing: Writing
    words: str

    @cached_property
    def pieces(self) -> list[int]:
        """As the tokenizer writes it at the beginning of a word."""
        return self.writing.encode(self.words)

    @cached_property
    def text(self) -> bytes:
        return self.writing.text(self.pieces).removeprefix(WORD_START_BYTE)

    @cached_property
    def spelled(self) -> list[int]:
        """As it is written where no word begins: after a space, or in a script without spaces."""
        return self.writing.spell(self.text)

    @cached_property
    def after_places(self) -> dict[int, int]:
        """For each place of the text at which one of `pieces` ends, the number of pieces before it."""
        place, found = -len(WORD_START_BYTE), {}
        for number, piece in enumerate(self.pieces, 1):
            place += len(self.writing.vocabulary.pieces[piece])
            found[place] = number
        return found

    @cached_property
    def most(self) -> int:
        """The most pieces that it takes from its beginning."""
        return max(len(self.pieces), len(self.spelled))

    def begin(self, before: bytes) -> list[int]:
        """Return the pieces that write it after a text."""
        glued = before.endswith(WORD_START_BYTE) or (before and re.match(SPACELESS, self.words))
        return self.spelled if glued else self.pieces

    def rest(self, before: bytes) -> list[int]:
        """Return the pieces that complete it after a text that ends with a part of it; empty if it does not."""
        for place in range(min(len(self.text) - 1, len(before)), 0, -1):
            if before.endswith(self.text[:place]) and _is_edge(before, len(before) - place):
                known = self.after_places.get(place)
                return self.writing.spell(self.text[place:]) if known is None else self.pieces[known:]
        return []

    def ends(self, text: bytes, start: int) -> list[int]:
        """Return the places after ``start`` at which it ends in a text as words of their own, or at the text's end."""
        places = []
        end = text.find(self.text, max(0, start + 1 - len(self.text))) + len(self.text)
        while end >= len(self.text):
            if _is_edge(text, end - len(self.text)) and _is_edge(text, end):
                places.append(end)
            end = text.find(self.text, end - len(self.text) + 1) + len(self.text)
        return places


@dataclass(frozen=True)
class UnmetTerms(Constraint):
    """The terms that are not yet in a translation: of each, one target must follow, as words of their own."""

    writing: Writing
    unmet: tuple[tuple[Target, ...], ...]
    ending: tuple[tuple[Target, ...], ...] = ()
    """Those at the end of the translation, which are met unless the next piece continues their last word."""
    text: bytes = b""
    """The end of the translation, as far as it matters, see `_relevant_end`."""
    known: dict[Any, "UnmetTerms"] = field(default_factory=dict, compare=False, repr=False)
    """All that were met before, by their other fields: there are few, and each computes what it is asked only once."""
    followers: dict[int, "UnmetTerms | None"] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def needs(self) -> int:
        begun = self._fewest(self.unmet, lambda target: target.begin(self.text))
        # To complete a part of a term may continue a last word that is another one, which must then be written again.
        return min(begun, self._fewest((*self.unmet, *self.ending), lambda target: target.rest(self.text)))

    @staticmethod
    def _fewest(terms: Sequence[tuple[Target, ...]], write: Callable[[Target], list[int]]) -> int:
        """Return the pieces of all terms from their beginnings, less what ``write`` saves for one of them."""
        most = [min(target.most for target in targets) for targets in terms]
        pairs = ((number, write(each)) for number, targets in zip(most, terms, strict=True) for each in targets)
        return sum(most) - max((number - len(pieces) for number, pieces in pairs if pieces), default=0)

    @property
    def distance(self) -> int:
        return self.needs

    @cached_property
    def next_pieces(self) -> list[int]:
        targets = [target for targets in self.unmet for target in targets]
        pieces = (pieces[:1] for target in targets for pieces in (target.rest(self.text), target.begin(self.text)))
        return list(dict.fromkeys(piece for first in pieces for piece in first))

    @cached_property
    def _most(self) -> int:
        """The most pieces that are needed after any piece."""
        return sum(min(target.most for target in targets) for targets in (*self.unmet, *self.ending))

    def forbidden(self, room: int, vocab: int) -> Forbidden | None:
        if room >= self._most:
            return None
        if not self.unmet:
            mask = ~self.writing.separating
            mask[EOS] = False
            return mask
        mask = torch.ones(vocab, dtype=torch.bool)
        mask[[piece for piece in self.next_pieces if (left := self.after(piece)) is None or left.needs <= room]] = False
        return mask

    def after(self, piece: int) -> "UnmetTerms | None":
        if piece not in self.followers:
            self.followers[piece] = self._after(self.writing.vocabulary.pieces[piece])
        return self.followers[piece]

    def _after(self, piece: bytes) -> "UnmetTerms | None":
        text = self.text + piece
        is_continued = self.ending and not _is_edge(text, len(self.text))
        ending: list[tuple[Target, ...]] = []
        left: list[tuple[Target, ...]] = []
        for targets in (*self.unmet, *(self.ending if is_continued else ())):
            places = [place for target in targets for place in target.ends(text, len(self.text))]
            if not any(place < len(text) for place in places):
                (ending if places else left).append(targets)
        if not (left or ending):
            return None
        unmet, ends = tuple(left), tuple(ending)
        end = _relevant_end(text, [target for targets in (*unmet, *ends) for target in targets])
        found = UnmetTerms(self.writing, unmet, ends, end, self.known)
        return self.known.setdefault((unmet, ends, end), found)


def _relevant_end(text: bytes, targets: Sequence[Target]) -> bytes:
    """Return a short text that ends as another one, for what may follow: with a part of a target, if it does."""
    longest = max(len(target.text) for target in targets)
    for start in range(max(0, len(text) - longest), len(text)):
        if _is_edge(text, start) and any(target.text.startswith(text[start:]) for target in targets):
            return WORD_START_BYTE + text[start:]
    return (
        WORD_START_BYTE
        if text.endswith(WORD_START_BYTE)
        else ANY_LETTER
        if _is_letter(text, len(text), before=True)
        else b"."
    )


def _is_edge(text: bytes, place: int) -> bool:
    """Return whether a word may begin or end at a place of a text: it is not between two letters of a word."""
    return place in (0, len(text)) or not (_is_letter(text, place, before=True) and _is_letter(text, place))


def _is_letter(text: bytes, place: int, *, before: bool = False) -> bool:
    """Return whether the character at, or before, a place of a text is a letter or digit of a script with spaces."""
    part = text[max(0, place - 4) : place] if before else text[place : place + 4]
    chars = part.replace(WORD_START_BYTE, b" ").decode(errors="ignore")
    char = (chars[-1:] if before else chars[:1]) or "a"  # a part of a character: it may be one
    return char.isalnum() and not re.match(SPACELESS, char)
