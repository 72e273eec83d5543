"""Divide texts into sentences, and put their translations together again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from heed.inference.segmentation import WITHOUT_SPACES, join_translations, sentence_splitter, split_long
from heed.serve.html import TextNode, parse

if TYPE_CHECKING:
    from heed.inference.outputs import Translation
    from heed.inference.translator import Translator


@dataclass(frozen=True)
class Line:
    """A part of a document whose sentences are translated. The rest is copied."""

    parts: list[str]
    """Sentences with the space between them. A part that is empty is no sentence."""
    write: Callable[[str], str] = str
    """Applied to the translation."""


@dataclass(frozen=True)
class Document:
    """A text divided into lines, and strings that are copied."""

    pieces: list[str | Line]
    sentences: list[str]
    """What is to be translated."""
    joint: str
    """What stands between two translations in a line."""

    def join(self, translations: "Sequence[Translation]") -> str:
        """Return the document with the translations of its sentences."""
        remaining = iter(translations)
        texts = []
        for piece in self.pieces:
            if isinstance(piece, str):
                texts.append(piece)
            else:
                own = [next(remaining) for _ in piece.parts]
                texts.append(piece.write(join_translations(piece.parts, own, self.joint).text))
        return "".join(texts)


def text_document(text: str, translator: "Translator", *, split_sentences: bool) -> Document:
    """Divide a plain text. Line breaks, and white space around lines, are kept.

    Args:
        split_sentences: divide lines into sentences; otherwise only where a line is too long for the model.
    """
    divide = _divider(translator, split_sentences)
    pieces: list[str | Line] = []
    for number, line in enumerate(text.split("\n")):
        before, content, after = _strip(line)
        pieces.append(before if number == 0 else f"\n{before}")
        if content:
            pieces.append(Line(divide(content)))
        pieces.append(after)
    return _document(pieces, translator)


def html_document(text: str, translator: "Translator", *, split_sentences: bool) -> Document:
    """Divide HTML. Only text nodes are translated; everything else is kept as it is.

    Args:
        split_sentences: see `text_document`.

    Raises:
        ApiError: if a tag or a comment is not closed.
    """
    divide = _divider(translator, split_sentences)
    pieces: list[str | Line] = []
    for piece in parse(text):
        if not isinstance(piece, TextNode):
            pieces.append(piece)
            continue
        before, content, after = _strip(piece.text)
        # A line break in HTML is a space.
        line = Line(divide(" ".join(content.split())), write=_escape) if content else ""
        pieces += [_escape(before), line, _escape(after)]
    return _document(pieces, translator)


def _document(pieces: list[str | Line], translator: "Translator") -> Document:
    sentences = [part.strip(" \t") for piece in pieces if isinstance(piece, Line) for part in piece.parts]
    base = translator.tgt_lang.replace("_", "-").partition("-")[0]
    return Document(pieces, sentences, "" if base in WITHOUT_SPACES else " ")


def _divider(translator: "Translator", split_sentences: bool) -> Callable[[str], list[str]]:
    """Return a function that divides a line into sentences that the model accepts."""

    def count(part: str) -> int:
        return len(translator.tokenizer.encode_src([part])[0])

    def parts(line: str) -> Iterator[str]:
        for sentence in split(line):
            yield from split_long(sentence, max_tokens=translator.max_tokens, count=count)

    split = sentence_splitter(translator.src_lang) if split_sentences else _one_sentence
    return lambda line: list(parts(line))


def _one_sentence(line: str) -> list[str]:
    return [line]


def _strip(line: str) -> tuple[str, str, str]:
    """Return the white space before a line's content, the content, and the white space after it."""
    content = line.strip()
    start = line.index(content)
    return line[:start], content, line[start + len(content) :]


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&nbsp;")
