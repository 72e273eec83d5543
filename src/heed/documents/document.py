"""Split texts into sentences, and reassemble the translations."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import chain, islice

from heed.documents.html import TextNode, parse
from heed.inference.outputs import Translation
from heed.inference.segmentation import SentenceSplitter, sentence_of

INNER_SPACE = re.compile(r"(?<=\S)[ \t\n\f\r\xa0]+(?=\S)")
NO_BREAK = re.compile(r"(\S+)\xa0(?=(\S+))")
"""The words around a no-break space."""


@dataclass(frozen=True)
class Line:
    """A part of a document to translate."""

    parts: list[str]
    """The sentences with the white space between them."""
    splitter: SentenceSplitter
    write: Callable[[str], str]
    """Function to apply to the translation."""


class Document:
    """Lines to translate, and strings that are copied."""

    def __init__(self, pieces: Sequence[str | Line]) -> None:
        self._pieces = pieces
        self.sentences = [sentence_of(part) for line in pieces if isinstance(line, Line) for part in line.parts]
        """The sentences to translate."""

    def versions(self, n_best: Sequence[Sequence[Translation]], count: int) -> dict[str, list[Translation]]:
        """Return translations of the document, best first, with the translations of their sentences.

        Version k has the k-th best translation of each sentence that is not empty. A sentence with fewer translations
        uses its best one; the source itself if all are empty. Equal versions count once.
        """
        offered = [
            [each for each in found if each.text.strip()] or [replace(found[0], text=sentence)]
            for sentence, found in zip(self.sentences, n_best, strict=True)
        ]
        ranked = ([found[rank] if rank < len(found) else found[0] for found in offered] for rank in range(count))
        versions: dict[str, list[Translation]] = {}
        for chosen in ranked:
            versions.setdefault(self._join(chosen), chosen)
        return versions

    def _join(self, translations: Iterable[Translation]) -> str:
        remaining = iter(translations)

        def translated(line: Line) -> str:
            return line.write(line.splitter.join(line.parts, list(islice(remaining, len(line.parts)))).text)

        return "".join(translated(piece) if isinstance(piece, Line) else piece for piece in self._pieces)


def text_document(text: str, splitter: SentenceSplitter) -> Document:
    """Split a plain text. Line breaks and white space around lines are kept."""
    lines = re.split(r"([\n-\r\x1c-\x1e\x85\u2028\u2029])", text)  # with the line breaks, which are white space
    return Document([piece for line in lines for piece in _pieces(line, splitter, str)])


def html_document(text: str, splitter: SentenceSplitter) -> Document:
    """Split HTML. Only text nodes are translated; everything else is copied. Errors: see `parse`."""

    def pieces(node: TextNode) -> list[str | Line]:
        words = NO_BREAK.findall(node.text)

        def write(text: str) -> str:
            # The model reads spaces. Where it copies both words, as in "10 km", the no-break space is restored.
            for first, second in words:
                text = text.replace(f"{first} {second}", f"{first}\xa0{second}")
            return escape(text, quote=False).replace("\xa0", "&nbsp;")

        return _pieces(INNER_SPACE.sub(" ", node.text), splitter, write)  # a line break in HTML is a space

    nodes = ([node] if isinstance(node, str) else pieces(node) for node in parse(text))
    return Document(list(chain.from_iterable(nodes)))


def _pieces(text: str, splitter: SentenceSplitter, write: Callable[[str], str]) -> list[str | Line]:
    """Split a text into leading white space, sentences and trailing white space."""
    content = text.strip()
    if not content:
        return [write(text)]
    before, after = text.split(content, 1)
    return [write(before), Line(splitter.split(content), splitter, write), write(after)]
