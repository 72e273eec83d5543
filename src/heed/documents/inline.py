"""Take inline markup out of sentences, and put it around the words of a translation that are aligned with its words."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import Literal, NamedTuple

from heed.errors import HeedError
from heed.evaluation.alignment import Link
from heed.evaluation.words import split_words
from heed.inference.outputs import Translation

PLACEHOLDER_RANGES = (range(0xF8F0, 0xF900), range(0xE000, 0xF8F0), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
"""All private-use characters. In a sentence, one stands for markup that is kept."""
WHITE_SPACE = re.compile(r"[ \t\n\f\r\xa0]+")
NO_BREAK = re.compile(r"(?<!\S)(\S+)\xa0(?=(\S+))")
"""The words around a no-break space."""
SPACED_KEPT = re.compile(r"(\s*)([\ue000-\uf8ff\U000f0000-\U0010fffd])(\s*)")
SPACED_WORD = re.compile(r"[^ \t]+")
"""A word of `split_words`."""
LEADING_PUNCTUATION = re.compile("[^\\w\\s\ue000-\uf8ff\U000f0000-\U0010fffd]*")

Kind = Literal["text", "start", "end", "kept", "block"]
Span = tuple[int, int]
"""The first character, and the one after the last."""


class Token(NamedTuple):
    """A part of a document."""

    kind: Kind
    """Text; start or end of an inline element; what is copied within a sentence; what ends a sentence."""
    markup: str
    """As in the document."""
    value: str = ""
    """Text and kept: the words, without character references; "\\n" for a line break. Start and end: the name."""


class Element(NamedTuple):
    """An inline element around some characters of a text."""

    span: Span
    tags: tuple[str, str]
    parent: int
    """Index of the element around it, which comes before it; −1 for none."""


# ---- out of the source


@dataclass(frozen=True)
class InlineText:
    """A text whose inline markup was taken out."""

    text: str
    elements: Sequence[Element]
    kept: Mapping[str, str]
    """Markup by its placeholder in the text; of a line break, with the white space around it."""
    breaks: str
    """The placeholders of line breaks."""
    no_breaks: Sequence[tuple[str, str]]
    """Words with a no-break space in between."""
    escape: Callable[[str], str]
    """Writes text as markup."""

    def restore(self, translation: Translation) -> str:
        """Return a translation of the text with the markup.

        Placeholders that it lacks are added at its end. Of one that occurs several times, the first one counts.
        """
        text = translation.text
        for char in sorted(self.kept.keys() - {*text}):
            text += f" {char}" if f" {char}" in self.text else char
        tags = place(self.elements, self.text, text, translation.alignment or (), self.kept.keys())
        # The model reads spaces. Where it copies both words, as in "10 km", the no-break space is restored.
        for first, second in self.no_breaks:
            text = text.replace(f"{first} {second}", f"{first}\xa0{second}")
        kept, parts, start = dict(self.kept), [], 0
        for stop, tag in [*tags, (len(text), "")]:
            content = self.escape(text[start:stop])
            for char in self.breaks:
                content = content.replace(f" {char}", char).replace(f"{char} ", char)
            parts += [*(kept.pop(char, "") if char in self.kept else char for char in content), tag]
            start = stop
        return "".join(parts)


def inline_texts(tokens: Sequence[Token], escape: Callable[[str], str], *, aligned: bool) -> Iterator[str | InlineText]:
    """Yield the texts of a document, and the strings between them, which are copied.

    Args:
        escape: writes text as markup.
        aligned: whether translations will have alignments. Otherwise, every tag ends a text.
    """
    tokens = _simplified(tokens) if aligned else tokens
    for _, group in groupby(tokens, lambda each: each.kind == "block" or not (aligned or each.kind == "text")):
        own = list(group)
        has_text = any(each.kind == "text" and each.value.strip() for each in own)
        inner = [i for i, each in enumerate(own) if has_text and (each.kind == "start" or each.value.strip())]
        first, last = (inner[0], inner[-1] + 1) if inner else (len(own), len(own))
        yield "".join(each.markup for each in own[:first])
        yield from _inline_text(own[first:last], escape)
        yield "".join(each.markup for each in own[last:])


def _simplified(tokens: Sequence[Token]) -> list[Token]:
    """Make tags without their counterparts blocks; join kept tokens, also a pair of tags without text in between."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.kind == "start":
            opened.append(i)
        elif token.kind == "end" and opened and tokens[opened[-1]].value == token.value:
            ends[opened.pop()] = i
        elif token.kind in ("end", "block"):
            opened.clear()
    paired = {*ends, *ends.values()}
    texts = list(accumulate((each.kind == "text" and each.value.strip() != "" for each in tokens), initial=0))
    found: list[Token] = []
    position = 0
    while position < len(tokens):
        token, start = tokens[position], position
        position += 1
        if start in ends and texts[ends[start]] == texts[start]:
            position = ends[start] + 1
            own = tokens[start:position]
            words = "".join(each.value for each in own if each.kind == "kept")
            token = Token("kept", "".join(each.markup for each in own), words)
        elif token.kind in ("start", "end") and start not in paired:
            token = Token("block", token.markup)
        if found and token.kind == found[-1].kind == "kept":
            token = Token("kept", found[-1].markup + token.markup, found.pop().value + token.value)
        found.append(token)
    return found


def _inline_text(tokens: Sequence[Token], escape: Callable[[str], str]) -> Iterator[str | InlineText]:
    """Yield leading white space, the text of tokens with balanced tags, and trailing white space; nothing for none."""
    own = {char for each in tokens for char in each.value}
    free = (char for char in map(chr, chain.from_iterable(PLACEHOLDER_RANGES)) if char not in own)
    raw = text = breaks = ""
    elements: list[Element] = []
    opened = [-1]
    kept: dict[str, str] = {}
    for kind, markup, value in tokens:
        if kind == "start":
            elements.append(Element((len(text), 0), (markup, ""), opened[-1]))
            opened.append(len(elements) - 1)
        elif kind == "end":
            (start, _), (tag, _), parent = elements[opened[-1]]
            elements[opened.pop()] = Element((start, len(text)), (tag, markup), parent)
        else:
            is_break = kind == "kept" and "\n" in value and not value.strip()
            if kind == "kept":
                if not (char := next(free, "")):
                    raise HeedError("A paragraph of this document has too much markup: split it.")
                kept[char], value = markup, char
            raw, breaks = raw + value, breaks + value * is_break
            value = f" {value} " if is_break else value  # a sentence may end before a line break
            value = WHITE_SPACE.sub(" ", value if text else value.lstrip())
            text += value.removeprefix(" ") if text.endswith(" ") else value
    if tokens:
        for before, char, after in SPACED_KEPT.findall(raw):
            kept |= {char: escape(before) + kept[char] + escape(after)} if char in breaks else {}
        no_breaks = NO_BREAK.findall(raw.translate(dict.fromkeys(map(ord, breaks), " ")))
        yield escape(raw[: len(raw) - len(raw.lstrip())])
        yield InlineText(text.rstrip(), elements, kept, breaks, no_breaks, escape)
        yield escape(raw[len(raw.rstrip()) :])


# ---- into the translation


def place(
    elements: Sequence[Element], source: str, target: str, links: Iterable[Link], kept: Set[str] = frozenset()
) -> list[tuple[int, str]]:
    """Return the tags of inline elements in order, each with its position in the translation.

    An element is put around the sequence of words with the most words aligned with words of the element, minus the
    words aligned only with others. It stays within its parent and outside of its siblings. Punctuation at its edges is
    outside, unless the element begins or ends with punctuation in the source. An element without aligned words is
    empty, after the element before it. An element around all words of the source, or of its parent, stays so.

    Args:
        links: pairs of a source word and a target word, separated by spaces.
        kept: characters that are aligned with themselves.
    """
    src_words, tgt_words = ([each.span() for each in SPACED_WORD.finditer(text)] for text in (source, target))
    src_starts, src_stops = ([word[side] for word in src_words] for side in (0, 1))
    aligned = _targets(source, target, links, kept)
    linked = set().union(*aligned.values())
    linked_before = list(accumulate((j in linked for j in range(len(tgt_words))), initial=0))
    spans, ends, free = {-1: (0, len(target))}, {-1: 0}, {-1: [(0, len(target))]}
    """Of each element: where it is, where the last element within ends, and what is outside of the elements within."""
    inside: dict[int, list[int]] = defaultdict(list)
    for i, ((start, stop), _, parent) in enumerate(elements):
        first, last = elements[parent].span if parent >= 0 else (0, len(source))
        words, parts = range(bisect_right(src_stops, start), bisect_left(src_starts, stop)), free[parent]
        own = set().union(*(aligned[word] for word in words))
        if not (source[first:start] + source[stop:last]).strip():
            spans[i], free[parent] = spans[parent], []
        elif chosen := _best(own, tgt_words, linked_before, parts):
            k, span = chosen
            text, content = target[slice(*span)], source[start:stop].strip()
            before, after = source[src_starts[words[0]] : start], source[stop : src_stops[words[-1]]]
            narrow = (
                max(parts[k][0], span[0] + _outside(before, content, text, kept)),
                min(parts[k][1], span[1] - _outside(after[::-1], content[::-1], text[::-1], kept)),
            )
            whole = max(span[0], parts[k][0]), min(span[1], parts[k][1])
            spans[i] = narrow if narrow[0] < narrow[1] else whole
            parts[k : k + 1] = _filled((parts[k][0], spans[i][0]), (spans[i][1], parts[k][1]))
        else:
            spans[i] = (ends[parent], ends[parent])
        ends[parent], ends[i], free[i] = spans[i][1], spans[i][0], _filled(spans[i])
        inside[parent].append(i)
    tags, todo = [], [-1]
    while todo:
        i = todo.pop()
        if i >= 0:
            tags.append((spans[i][0], elements[i].tags[0]))
        elif i < -1:
            tags.append((spans[-i - 2][1], elements[-i - 2].tags[1]))
            continue
        todo += [-i - 2] * (i >= 0) + sorted(inside[i], key=spans.__getitem__)[::-1]
    return tags


def _filled(*spans: Span) -> list[Span]:
    return [span for span in spans if span[0] < span[1]]


def _targets(source: str, target: str, links: Iterable[Link], kept: Set[str]) -> dict[int, set[int]]:
    """Return the target words that are aligned with each source word. Words of kept characters are with the same."""
    sides = split_words(source), split_words(target)
    has_text = [[not set(word) <= kept for word in words] for words in sides]
    src, tgt = ({c: i for i, word in reversed([*enumerate(words)]) for c in word if c in kept} for words in sides)
    known = ((i, j) for i, j in links if i < len(sides[0]) and j < len(sides[1]) and has_text[0][i] and has_text[1][j])
    aligned: dict[int, set[int]] = defaultdict(set)
    for i, j in chain(known, ((src[char], tgt[char]) for char in src.keys() & tgt.keys())):
        aligned[i].add(j)
    return aligned


def _best(
    own: Set[int], words: Sequence[Span], linked_before: Sequence[int], parts: Sequence[Span]
) -> tuple[int, Span] | None:
    """Return the sequence of words with the most words of ``own`` minus other aligned words, in one part of the text.

    Args:
        linked_before: the number of aligned words before each word.
        parts: in order. One may begin or end within a word, which belongs to the last one then.

    Returns:
        The index of the part, and the characters of the words.
    """
    found: tuple[int, Span] | None = None
    most = score = first = after = 0
    previous = -1
    for j in sorted(own):
        k = bisect_left(parts, (words[j][1],)) - 1
        if k < 0 or parts[k][1] <= words[j][0]:
            continue
        score = score - (linked_before[j] - linked_before[after]) if k == previous else 0
        if score <= 0:
            score, first = 0, j
        score, after, previous = score + 1, j + 1, k
        if score > most:
            found, most = (k, (words[first][0], words[j][1])), score
    return found


def _outside(edge: str, content: str, text: str, kept: Set[str]) -> int:
    """Return how many of the first characters of a text in the translation are outside of an element.

    Args:
        edge: what is in the source between the start of a word and the element.
        content: the element in the source.
    """
    known = [i for i, char in enumerate(edge) if char in kept and char in text]
    count = max((text.index(edge[i]) + 1 for i in known), default=0)
    edge = edge[known[-1] + 1 :] if known else edge
    if text.startswith(edge + content, count):  # as in H₂O, with <sub>2</sub>
        count += len(edge)
    leading, outside = LEADING_PUNCTUATION.match(content), LEADING_PUNCTUATION.match(text, count)
    return outside.end() if outside and not (leading and leading[0]) else count
