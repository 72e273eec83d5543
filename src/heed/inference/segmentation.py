"""Translate lines with several sentences: split lines, translate the sentences, and join the translations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain, islice
from typing import Unpack

from heed.errors import require
from heed.inference.lines import blocks, renumbered
from heed.inference.outputs import Translation, join_translations
from heed.inference.searches import TranslateOptions
from heed.inference.translator import Translator
from heed.languages import base_language

WITHOUT_SPACES = frozenset({"zh", "yue", "ja", "th", "lo", "km", "my"})
"""Languages that are written without spaces between sentences."""

CLAUSE_END = (",", ";", ":", ".", "!", "?", ")", "–", "—", "،", "؛", "、", "，", "；", "：", "。")
"""Punctuation marks after which a long sentence may be split."""


def sentence_rules(language: str) -> Callable[[str], list[str]]:
    """Return a function that splits a line into sentences. Their concatenation is the line.

    The rules come from sentencex. For an unknown language, it uses a related language or English.

    Raises:
        HeedError: if sentencex is not installed.
    """
    segment = require("sentencex", "Splitting sentences", "split").segment
    base = base_language(language) or "en"  # sentencex has no rules for de-AT

    def split(line: str) -> list[str]:
        found: list[str] = segment(base, line)
        # If the parts do not add up to the line, treat the line as one sentence.
        return found if "".join(found) == line and found else [line]

    return split


class SentenceSplitter:
    """Splits lines into sentences that a model accepts, and joins the translations of the sentences.

    Args:
        translator: provides the languages and the limit in subwords.
        by_rules: split at the ends of sentences (`sentence_rules`), instead of only splitting lines that are too long.

    Raises:
        HeedError: with ``by_rules``, if sentencex is not installed.
    """

    def __init__(self, translator: Translator, *, by_rules: bool = True) -> None:
        self._translator = translator
        self._rules = sentence_rules(translator.src_lang) if by_rules else lambda line: [line]
        self._space = "" if base_language(translator.tgt_lang) in WITHOUT_SPACES else " "

    def split(self, line: str) -> list[str]:
        """Return the sentences of a line with the white space between them. Their concatenation is the line."""
        return [part for sentence in self._rules(line) for part in self._split_long(sentence)]

    def join(self, parts: Sequence[str], translations: Sequence[Translation]) -> Translation:
        """Join the translations of a line's parts. Scores are summed. Alignments use word positions in the line."""
        if len(translations) == 1:
            return translations[0]
        texts = [translation.text for translation in translations]
        # Parts without a translation, such as trailing spaces, add no space.
        targets = [f"{text}{self._space if text and any(texts[i + 1 :]) else ''}" for i, text in enumerate(texts)]
        return join_translations(parts, targets, translations)

    def _split_long(self, sentence: str) -> list[str]:
        """Split a sentence with too many subwords: after punctuation, else at a space, else between characters."""
        limit = self._translator.max_tokens
        if limit is None or len(sentence) < 2 or len(self._translator.encode([sentence])[0]) <= limit:
            return [sentence]
        cut = _best_cut(sentence)
        return [*self._split_long(sentence[:cut]), *self._split_long(sentence[cut:])]


def sentence_of(part: str) -> str:
    """Return the sentence in a part of a line, without the white space around it."""
    return part.strip(" \t")


def stream_lines(
    translator: Translator,
    lines: Iterable[str],
    *,
    chunk: int,
    is_ready: Callable[[], bool] = lambda: True,
    alignments: bool = False,
    **options: Unpack[TranslateOptions],
) -> Iterator[list[Translation]]:
    """Yield the translation of each line as a list of one. Its sentences are translated singly.

    Args:
        chunk, is_ready, alignments, options: see `Translator.stream_hypotheses`.

    Raises:
        HeedError: see `Translator.translate`; or if sentencex is not installed.
    """
    splitter = SentenceSplitter(translator)
    translator.stream_hypotheses([], chunk=chunk, **options)  # reports wrong options before the first line is read

    def translate(block: list[tuple[int, str]]) -> list[list[Translation]]:
        parts = [splitter.split(line) for _, line in block]
        numbers = [number for (number, _), own in zip(block, parts, strict=True) for _ in own]
        sentences = [sentence_of(part) for own in parts for part in own]
        counts_lines = copy(translator)
        counts_lines.on_batch = lambda done: translator.on_batch(done * len(block) / len(sentences))
        with renumbered(lambda number: numbers[number - 1]):
            found = counts_lines.hypotheses(sentences, alignments=alignments, **options)
        best = (translations[0] for translations in found)
        return [[splitter.join(own, list(islice(best, len(own))))] for own in parts]

    return chain.from_iterable(map(translate, blocks(enumerate(lines, 1), chunk, is_ready)))


def _best_cut(sentence: str) -> int:
    """Return the position nearest to the middle after a punctuation mark, else after a space, else the middle."""
    middle = len(sentence) // 2
    inner = range(len(sentence) // 4 or 1, len(sentence) - len(sentence) // 4)
    clauses = [place for place in inner if sentence[place - 1].isspace() and sentence[: place - 1].endswith(CLAUSE_END)]
    spaces = [place for place in range(1, len(sentence)) if sentence[place - 1].isspace()]
    return min(clauses or spaces or [middle], key=lambda place: abs(place - middle))
