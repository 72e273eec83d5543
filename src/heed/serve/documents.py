"""Split texts into sentences, and reassemble the translations."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from heed.inference.outputs import Translation
from heed.inference.segmentation import SentenceSplitter, sentence_of
from heed.serve.html import TextNode, parse

INNER_SPACE = re.compile(r"(?<=\S)\s+(?=\S)")


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

    def versions(self, n_best: Sequence[Sequence[Translation]], count: int) -> list[str]:
        """Return translations of the document, best first: version k has the k-th best translation of each sentence.

        A sentence with fewer translations in ``n_best`` uses its best one. Equal versions count once.
        """
        ranked = ([found[rank] if rank < len(found) else found[0] for found in n_best] for rank in range(count))
        return list(dict.fromkeys(map(self._join, ranked)))

    def _join(self, translations: Iterable[Translation]) -> str:
        remaining = iter(translations)
        texts = []
        for piece in self._pieces:
            if isinstance(piece, Line):
                joined = piece.splitter.join(piece.parts, [next(remaining) for _ in piece.parts])
                texts.append(piece.write(joined.text))
            else:
                texts.append(piece)
        return "".join(texts)


def text_document(text: str, splitter: SentenceSplitter) -> Document:
    """Split a plain text. Line breaks and white space around lines are kept."""
    pieces = [piece for line in text.split("\n") for piece in ("\n", *_pieces(line, splitter, str))]
    return Document(pieces[1:])


def html_document(text: str, splitter: SentenceSplitter) -> Document:
    """Split HTML. Only text nodes are translated; everything else is copied. Errors: see `parse`."""

    def write(text: str) -> str:
        return escape(text, quote=False).replace("\xa0", "&nbsp;")

    pieces: list[str | Line] = []
    for node in parse(text):
        if isinstance(node, TextNode):
            pieces += _pieces(INNER_SPACE.sub(" ", node.text), splitter, write)  # a line break in HTML is a space
        else:
            pieces.append(node)
    return Document(pieces)


def _pieces(text: str, splitter: SentenceSplitter, write: Callable[[str], str]) -> list[str | Line]:
    """Split a text into leading white space, sentences and trailing white space."""
    content = text.strip()
    if not content:
        return [write(text)]
    before, after = text.split(content, 1)
    return [write(before), Line(splitter.split(content), splitter, write), write(after)]
