"""Split documents into sentences, and reassemble the translations."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import islice
from operator import attrgetter

from heed.documents import html, markdown
from heed.documents.inline import InlineText, Token, inline_texts
from heed.errors import HeedError
from heed.evaluation.words import split_words
from heed.inference.outputs import Translation
from heed.inference.searches import Protect
from heed.inference.segmentation import WITHOUT_SPACES, SentenceSplitter, sentence_of
from heed.inference.translator import Translator
from heed.languages import base_language


def _as_html(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&nbsp;")


MARKUP: Mapping[str, tuple[Callable[[str], list[Token]], Callable[[str], str]]] = {
    "html": (html.parse, _as_html),
    "md": (markdown.parse, str),
}
"""Formats besides plain text: functions that split a document, and that write text as markup."""


@dataclass(frozen=True)
class Line:
    """A part of a document to translate."""

    parts: list[str]
    """The sentences with the white space between them."""
    splitter: SentenceSplitter
    write: Callable[[Translation], str]
    """Function to apply to the translation."""


class Document:
    """Lines to translate, and strings that are copied.

    Args:
        needs_alignments: whether the translations must have alignments.
        has_kept: whether sentences have characters that stand for markup.
    """

    def __init__(self, pieces: Sequence[str | Line], *, needs_alignments: bool = False, has_kept: bool = False) -> None:
        self._pieces = pieces
        self.needs_alignments, self.has_kept = needs_alignments, has_kept
        self.sentences = [sentence_of(part) for line in pieces if isinstance(line, Line) for part in line.parts]
        """The sentences to translate."""

    def protection(self, protect: Protect) -> Protect:
        """Return ``protect`` of `Translator.translate` for the sentences: markup is copied in any case."""
        return ("markup" if protect is False else True) if self.has_kept else protect

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
        # A copied sentence is aligned with itself.
        remaining = (
            replace(each, alignment=[(i, i) for i in range(len(split_words(sentence)))])
            if each.text == sentence
            else each
            for sentence, each in zip(self.sentences, translations, strict=True)
        )

        def translated(line: Line) -> str:
            return line.write(line.splitter.join(line.parts, list(islice(remaining, len(line.parts)))))

        return "".join(translated(piece) if isinstance(piece, Line) else piece for piece in self._pieces)


def split_document(text: str, kind: str, translator: Translator, *, by_rules: bool) -> Document:
    """Split a document into the sentences that a model translates.

    Args:
        kind: "html" or "md". Others are plain text, in which line breaks and white space around lines are kept.
        by_rules: see `SentenceSplitter`.

    Raises:
        HeedError: see `SentenceSplitter` and `heed.documents.html.parse`.
    """
    splitter = SentenceSplitter(translator, by_rules=by_rules)
    if kind not in MARKUP:
        lines = re.split(r"([\n-\r\x1c-\x1e\x85\u2028\u2029])", text)  # with the line breaks, which are white space
        return Document([piece for line in lines for piece in _pieces(line, splitter)])
    parse, write = MARKUP[kind]
    found = list(inline_texts(parse(text), write, aligned=_aligns(translator)))
    return Document(
        [
            each if isinstance(each, str) else Line(splitter.split(each.text), splitter, each.restore)
            for each in found
            if each
        ],
        needs_alignments=any(isinstance(each, InlineText) and each.elements for each in found),
        has_kept=any(isinstance(each, InlineText) and each.kept for each in found),
    )


def text_of(text: str, kind: str) -> str:
    """Return the text of a document without markup. Arguments and errors: see `split_document`."""
    if kind not in MARKUP:
        return text
    return " ".join(token.value for token in MARKUP[kind][0](text) if token.kind == "text")


def _aligns(translator: Translator) -> bool:
    """Return whether a model gives word alignments."""
    if {base_language(translator.src_lang), base_language(translator.tgt_lang)} & WITHOUT_SPACES:
        return False
    try:
        return "cross" in translator.model.attention_heads
    except HeedError:  # an export without a model
        return False


def _pieces(line: str, splitter: SentenceSplitter) -> list[str | Line]:
    """Split a line into leading white space, sentences and trailing white space."""
    content = line.strip()
    if not content:
        return [line]
    before, after = line.split(content, 1)
    return [before, Line(splitter.split(content), splitter, attrgetter("text")), after]
