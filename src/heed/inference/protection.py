"""Protected text: variables, tags, addresses and identifiers that a translation contains as they are.

A model that was trained with placeholders (`heed.data.pairs.placeholders`) translates a sentence with one for each
protected span, and a constraint puts each into the translation once. Other models translate the text between the spans.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest

import torch

from heed.characters import PRIVATE_USE, PROTECTED
from heed.data.pairs.placeholders import replaced
from heed.decoding.constraints import Constraint, Forbidden
from heed.evaluation.alignment import Link
from heed.evaluation.words import split_words
from heed.inference.lines import renumbered
from heed.inference.outputs import Attended, Translation, join_translations
from heed.inference.searches import Protect
from heed.symbols import PLACEHOLDERS

ALL = "".join(PLACEHOLDERS)
ANY_PLACEHOLDER = re.compile(f"[{ALL}]")
SPANS: Mapping[Protect, re.Pattern[str]] = {True: PROTECTED, "markup": PRIVATE_USE}
"""What each option protects."""


@dataclass(frozen=True)
class Masked:
    """A sentence in which placeholders stand for protected spans."""

    text: str
    spans: Mapping[str, str] = field(default_factory=dict)
    """The text of each placeholder."""
    glued: frozenset[tuple[str, bool]] = frozenset()
    """The placeholders that have no space before (False) or after (True) them, but a letter or another span."""

    @classmethod
    def of(cls, sentence: str, protect: Protect = True) -> "Masked":
        """Replace the spans of a sentence, as many as there are placeholders; the others stay."""
        # Placeholders of the text itself first: they would be taken for those of other spans.
        chosen = sorted(SPANS[protect].finditer(sentence), key=lambda match: match[0] not in PLACEHOLDERS)
        found = sorted(chosen[: len(PLACEHOLDERS)], key=re.Match.start)
        spans = dict(zip(PLACEHOLDERS, (match[0] for match in found), strict=False))
        text, glued = replaced(sentence, found, [*spans])
        return cls(text, spans, glued)

    def restored(self, translation: str) -> str:
        """Return a translation with the spans in place of their placeholders, and with the spaces around them."""
        for char in self.spans:
            before = rf"\s*{char}" if (char, False) in self.glued else rf"(?<=[\w{ALL}]){char}"
            translation = re.sub(before, char if (char, False) in self.glued else f" {char}", translation)
            after = rf"{char}\s*" if (char, True) in self.glued else rf"{char}(?=\w)"
            translation = re.sub(after, char if (char, True) in self.glued else f"{char} ", translation)
        # A model may write a placeholder that it was not given.
        return ANY_PLACEHOLDER.sub(lambda match: self.spans.get(match[0], ""), translation)

    def in_prefix(self, prefix: str) -> str:
        """Return the beginning of a translation with placeholders for the spans of the sentence."""
        for char, span in self.spans.items():
            prefix = prefix.replace(span, char, 1)
        return prefix

    def named(self, pieces: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
        """Return the pieces of a translation with the spans as pieces."""
        return tuple((self.spans.get(piece, piece), log_prob) for piece, log_prob in pieces)

    def restored_pair(self, pair: Attended) -> Attended:
        """Return an attended pair of masked sentences with the spans as text and as pieces."""
        source, target = self.restored(pair.source), self.restored(pair.target)
        src, tgt = ([self.spans.get(piece, piece) for piece in own] for own in (pair.src_pieces, pair.tgt_pieces))
        return replace(pair, source=source, target=target, src_pieces=src, tgt_pieces=tgt)

    def links(self, pair: Attended, links: Sequence[Link]) -> list[Link]:
        """Return an alignment of masked sentences as one of the restored sentences: a span is its last word."""
        if not self.spans:
            return [*links]
        src, tgt = self._word_numbers(pair.source), self._word_numbers(pair.target)
        return sorted({(src[i], tgt[j]) for i, j in links})

    def _word_numbers(self, text: str) -> list[int]:
        """Return for each word of a text the number of the restored word that it ends in."""
        ends = [match.end() for match in re.finditer(r"\S+", text)]
        return [len(split_words(self.restored(text[:end]))) - 1 for end in ends]


@dataclass(frozen=True)
class Copies(Constraint):
    """Of the pieces that write placeholders, each of some occurs once, and the others never."""

    placeholders: Sequence[int]
    missing: frozenset[int]

    @property
    def needs(self) -> int:
        return len(self.missing)

    distance = needs

    @property
    def next_pieces(self) -> Sequence[int]:
        return sorted(self.missing)

    def forbidden(self, room: int, vocab: int) -> Forbidden:
        mask = torch.full((vocab,), room < self.needs > 0)
        mask[list(self.placeholders)] = True
        mask[list(self.missing)] = False
        return mask

    def after(self, piece: int) -> "Copies":
        return Copies(self.placeholders, self.missing - {piece})


def stream_cut(
    translate: Callable[[list[str]], Iterable[list[Translation]]], blocks: Iterable[list[str]], protect: Protect
) -> Iterator[list[Translation]]:
    """Yield the translation of each line of blocks as a list of one. The texts between its spans are translated singly.

    Args:
        translate: yields the translations of texts, best first.
    """
    done = 0
    for lines in blocks:
        parts = [_cut(line, SPANS[protect]) for line in lines]
        numbers = [0, *(number for number, own in enumerate(parts, done + 1) for _ in own[::2])]
        with renumbered(numbers.__getitem__):
            found = iter([each[0] for each in translate([text.strip() for own in parts for text in own[::2]])])
        for own in parts:
            yield [_joined(own, list(islice(found, len(own) // 2 + 1)))]
        done += len(lines)


def _cut(sentence: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the text between the spans, and the spans: text first, and by turns."""
    parts, end = list[str](), 0
    for match in pattern.finditer(sentence):
        parts += [sentence[end : match.start()], match[0]]
        end = match.end()
    return [*parts, sentence[end:]]


def _like(text: str, translation: str) -> str:
    """Return the translation of a text without the mark at its end, if the text is no sentence."""
    return translation.rstrip(" .!?。") if text[-1:].isalnum() else translation


def _joined(parts: Sequence[str], translations: Sequence[Translation]) -> Translation:
    """Return the translation of a line: those of its texts, with the white space around them, and the spans."""
    texts = (
        text.replace(text.strip(), _like(text.strip(), each.text), 1)
        for text, each in zip(parts[::2], translations, strict=True)
    )
    spans = ((span, Translation(span, 0.0, 0.0, finished=True, alignment=[(0, 0)])) for span in parts[1::2])
    targets = [each for pair in zip_longest(zip(texts, translations, strict=True), spans) for each in pair if each]
    joined = join_translations(parts, *map(list, zip(*targets, strict=True)))
    return replace(joined, parts=len(translations))
