"""Divide texts into sentences, and put their translations together again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heed.inference.segmentation import WITHOUT_SPACES, join_translations, sentence_splitter, split_long

if TYPE_CHECKING:
    from heed.inference.outputs import Translation
    from heed.inference.translator import Translator


@dataclass(frozen=True)
class Line:
    """A line of a text. White space around it is kept."""

    before: str
    sentences: list[str]
    """Their concatenation is the line without ``before`` and ``after``; none for an empty line."""
    after: str


def split_text(text: str, translator: "Translator", *, sentences: bool) -> list[Line]:
    """Return the lines of a text, divided into sentences that the model accepts.

    Args:
        sentences: divide lines into sentences; otherwise only where a line is too long for the model.
    """

    def count(part: str) -> int:
        return len(translator.tokenizer.encode_src([part])[0])

    split = sentence_splitter(translator.src_lang) if sentences else _one_sentence

    def parts(line: str) -> Iterator[str]:
        for sentence in split(line):
            yield from split_long(sentence, max_tokens=translator.max_tokens, count=count)

    lines = []
    for line in text.split("\n"):
        content = line.strip()
        start = line.index(content)
        lines.append(Line(line[:start], list(parts(content)) if content else [], line[start + len(content) :]))
    return lines


def sentences_of(lines: Sequence[Line]) -> list[str]:
    """Return the sentences as they are translated: without the space between them."""
    return [sentence.strip(" \t") for line in lines for sentence in line.sentences]


def join_text(lines: Sequence[Line], translations: "Sequence[Translation]", tgt_lang: str) -> str:
    """Return the text of the translations of `sentences_of` the lines."""
    joint = "" if tgt_lang.replace("_", "-").partition("-")[0] in WITHOUT_SPACES else " "
    remaining = iter(translations)
    texts = []
    for line in lines:
        own = [next(remaining) for _ in line.sentences]
        text = join_translations(line.sentences, own, joint).text if own else ""
        texts.append(line.before + text + line.after)
    return "\n".join(texts)


def _one_sentence(line: str) -> list[str]:
    return [line]
