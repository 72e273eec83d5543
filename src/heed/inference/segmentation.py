"""Translate lines of several sentences: split them, translate the sentences, and join the translations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from heed.errors import missing_package
from heed.evaluation.alignment.error_rate import Link
from heed.evaluation.words import split_words
from heed.inference.lines import renumbered
from heed.inference.outputs import Translation
from heed.inference.searches import SearchOptions

if TYPE_CHECKING:
    from heed.inference.translator import Translator

WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "km", "my"})
"""Languages in which no space separates sentences."""

CLAUSE_END = (",", ";", ":", ".", "!", "?", ")", "–", "—", "،", "؛", "、", "，", "；", "：", "。")
"""Marks of punctuation after which a long sentence is split."""

Splitter = Callable[[str], list[str]]


def sentence_splitter(language: str) -> Splitter:
    """Return a function that splits a line into sentences, whose concatenation is the line.

    The rules are sentencex's. For a language that it does not know, it uses those of a related one or of English.

    Args:
        language: ISO code, "" if unknown.

    Raises:
        HeedError: if sentencex is not installed.
    """
    try:
        from sentencex import segment  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_package("Splitting sentences", "sentencex", "split") from error

    def split(line: str) -> list[str]:
        found: list[str] = segment(language or "en", line)
        # Only a partition of the line keeps its text; otherwise the line is one sentence.
        return found if "".join(found) == line and found else [line]

    return split


def split_long(sentence: str, *, max_tokens: int | None, count: Callable[[str], int]) -> list[str]:
    """Split a sentence of too many subwords, after punctuation or at a space if there is one, else between characters.

    Args:
        max_tokens: the longest accepted sentence in subwords; None for no limit.
        count: returns the number of subwords of a text.
    """
    if max_tokens is None or count(sentence) <= max_tokens or len(sentence) < 2:
        return [sentence]
    cut = _best_cut(sentence)
    first, second = sentence[:cut], sentence[cut:]
    return [part for half in (first, second) for part in split_long(half, max_tokens=max_tokens, count=count)]


def _best_cut(sentence: str) -> int:
    """Return the place nearest to the middle after a mark of punctuation, else after a space, else the middle."""
    middle = len(sentence) // 2
    inner = range(len(sentence) // 4 or 1, len(sentence) - len(sentence) // 4)
    clauses = [place for place in inner if sentence[place - 1].isspace() and sentence[: place - 1].endswith(CLAUSE_END)]
    spaces = [place for place in range(1, len(sentence)) if sentence[place - 1].isspace()]
    return min(clauses or spaces or [middle], key=lambda place: abs(place - middle))


def stream_lines(
    translator: "Translator",
    lines: Iterable[str],
    *,
    chunk: int,
    alignments: bool = False,
    **search: Unpack[SearchOptions],
) -> Iterator[Translation]:
    """Yield the translation of each line, whose sentences are translated one by one.

    Wrong options are reported before the first line is read.

    The scores of a line are the sums over its sentences. Words of alignments are counted in the line.

    Args:
        chunk: lines to read at a time.
        alignments, search: see `Translator.translate`.

    Raises:
        HeedError: see `Translator.translate`; or if sentencex is not installed.
    """
    split = sentence_splitter(translator.src_lang)
    translator.stream((), chunk=1, **search)
    return _stream_lines(translator, iter(lines), split, chunk, alignments=alignments, search=search)


def _stream_lines(
    translator: "Translator",
    remaining: Iterator[str],
    split: Splitter,
    chunk: int,
    *,
    alignments: bool,
    search: SearchOptions,
) -> Iterator[Translation]:
    joint = "" if translator.tgt_lang.split("_")[0].split("-")[0] in WITHOUT_SPACES else " "

    def count(text: str) -> int:
        return len(translator.tokenizer.encode_src([text])[0])

    first_line = 1
    while block := list(islice(remaining, chunk)):
        parts = [
            [part for each in split(line) for part in split_long(each, max_tokens=translator.max_tokens, count=count)]
            for line in block
        ]
        numbers = [number for number, own in enumerate(parts, first_line) for _ in own]
        sentences = [part.strip(" \t") for own in parts for part in own]
        with renumbered(lambda number: numbers[number - 1]), _progress_in_lines(translator, len(block), len(numbers)):  # noqa: B023
            found = translator.stream(sentences, chunk=len(sentences), alignments=alignments, **search)
            best = iter([translations[0] for translations in found])
        for own in parts:
            yield join_translations(own, list(islice(best, len(own))), joint)
        first_line += len(block)


def join_translations(sources: Sequence[str], translations: Sequence[Translation], joint: str) -> Translation:
    """Return the translations of a line's sentences as one translation.

    Args:
        sources: the sentences; their concatenation is the line.
        joint: the text between two translations.
    """
    if len(translations) == 1:
        return translations[0]
    texts = [translation.text for translation in translations]
    # Sentences without a translation, such as trailing spaces, add no space.
    targets = [f"{text}{joint if text and any(texts[i + 1 :]) else ''}" for i, text in enumerate(texts)]
    alignment: list[Link] | None = None
    if all(translation.alignment is not None for translation in translations):
        src_words, tgt_words = _first_words(sources), _first_words(targets)
        alignment = sorted(
            (src + i, tgt + j)
            for src, tgt, translation in zip(src_words, tgt_words, translations, strict=True)
            for i, j in translation.alignment or ()
        )
    return replace(
        translations[0],
        text="".join(targets),
        score=sum(translation.score for translation in translations),
        log_prob=sum(translation.log_prob for translation in translations),
        finished=all(translation.finished for translation in translations),
        alignment=alignment,
    )


def _first_words(parts: Sequence[str]) -> list[int]:
    """Return the index of each part's first word in the concatenation of the parts."""
    starts, prefix = [], ""
    for part in parts:
        # Without a space between them, the last word before and the first word of the part are one.
        is_joined = prefix[-1:].strip(" \t") and part[:1].strip(" \t")
        starts.append(len(split_words(prefix)) - bool(is_joined))
        prefix += part
    return starts


@contextmanager
def _progress_in_lines(translator: "Translator", lines: int, sentences: int) -> Iterator[None]:
    """Report progress in lines while a translator translates the sentences of these lines."""
    report = translator.on_batch
    translator.on_batch = lambda done: report(done * lines / sentences)
    try:
        yield
    finally:
        translator.on_batch = report
