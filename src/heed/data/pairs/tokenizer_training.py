"""Train subword tokenizers on the word counts of a sample of the training text."""

import io
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, cycle
from pathlib import Path
from typing import Annotated, Literal

import sentencepiece as spm
from annotated_types import Interval

from heed.cache import build_once, cache_key
from heed.data.pairs.placeholders import MIN_PAIRS, count_sharing, count_sharing_spans
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.pairs.vocabulary import extend, fixed_options
from heed.data.text.corpus import TrainingSet
from heed.data.text.source import WordCounts
from heed.errors import HeedError
from heed.options import AtLeast1, UnitInterval, validated
from heed.progress import announced, print_line
from heed.symbols import BOS, EOS, PAD, PLACEHOLDERS, UNK

THREADS = 4
"""Threads of SentencePiece's training. It is constant, because unigram models depend on it."""
SECONDS_PER_SENTENCE = {"bpe": 2e-6, "unigram": 1e-5, "word": 1e-6, "char": 1e-6}
"""Rough duration of SentencePiece's training, because it reports no progress."""


@validated("tokenizer.")
@dataclass(kw_only=True)
class TokenizerTrainer:
    """Trains a tokenizer on the training split. conf/tokenizer/bpe.yaml explains each option.

    The names of the attributes are part of the cache key of a trained tokenizer. ``kind`` is "bpe" (Sennrich et al.
    2016), "unigram" (Kudo 2018), "word" (between spaces) or "char". ``vocab_size`` includes special symbols; "auto" is
    `auto_vocab_size`, or fewer pieces if the text does not have as many. ``vocabulary`` says what becomes of the
    tokenizer of a model that is fine-tuned.
    """

    kind: Literal["bpe", "unigram", "word", "char"]
    joint: bool
    vocab_size: Literal["auto"] | Annotated[int, Interval(ge=1, le=2**31 - 1)]
    byte_fallback: bool
    character_coverage: Annotated[float, Interval(ge=0.98, le=1)]
    normalization: str
    max_sentences: AtLeast1
    bpe_dropout: UnitInterval
    placeholders: Literal["auto"] | bool
    vocabulary: Literal["inherit", "extend", "new"]

    def __post_init__(self) -> None:
        if self.bpe_dropout and self.kind != "bpe":
            raise HeedError(
                f"tokenizer.bpe_dropout={self.bpe_dropout} drops BPE merges: set tokenizer.kind=bpe or "
                "tokenizer.bpe_dropout=0."
            )
        if self.byte_fallback and self.kind == "word":
            raise HeedError(
                "tokenizer.byte_fallback=true is for subwords: set tokenizer.byte_fallback=false or tokenizer.kind=bpe."
            )
        if self.placeholders is True and self.kind == "word":
            raise HeedError(
                "tokenizer.placeholders=true is for subwords: set tokenizer.placeholders=false or tokenizer.kind=bpe."
            )

    def train(
        self, text: TrainingSet, cache_dir: Path | str, *, tags: Sequence[str] = (), parent: Tokenizer | None = None
    ) -> Tokenizer:
        """Return a tokenizer trained on this text, once per text and settings. ``tags``: see `Tokenizer`.

        ``parent``, the tokenizer of a model that is fine-tuned, is returned, extended or, but for ``joint``, ignored.

        Raises:
            HeedError: if ``vocab_size`` is impossible for this text. The message contains the bound.
        """
        if parent and self.vocabulary == "inherit":
            return parent
        extended = parent if self.vocabulary == "extend" else None
        if parent:
            fixed = fixed_options(parent) if extended else {"joint": parent.joint}
            return replace(self, **fixed)._train(text, Path(cache_dir), tags, extended)
        return self._train(text, Path(cache_dir), tags, None)

    def _train(self, text: TrainingSet, cache_dir: Path, tags: Sequence[str], extended: Tokenizer | None) -> Tokenizer:
        if tags and not self.joint:
            raise HeedError(
                "A model of several target languages needs one vocabulary for all languages: set tokenizer.joint=true."
            )
        placeholders = PLACEHOLDERS if self._has_placeholders(text) else ()
        ignored = ("bpe_dropout", "placeholders", "vocabulary")
        learned = {name: value for name, value in vars(self).items() if name not in ignored}
        before = [extended.digest] if extended else []
        key = cache_key(spm.__version__, THREADS, sorted(learned.items()), text.digest, *tags, *placeholders, *before)
        sentences = min(len(text), self.max_sentences) * 2

        def build(folder: Path) -> None:
            with announced(
                "Training the tokenizer",
                f"{self.kind}, {sentences:,} sentences",
                expected_seconds=sentences * SECONDS_PER_SENTENCE[self.kind],
            ):
                train = partial(self.train_models, pairs=len(text), tags=tags, placeholders=placeholders)
                models = text.call_with_words(train, self.max_sentences)
                if extended:
                    models = [extend(old, new, tags) for old, new in zip(extended.models, cycle(models), strict=False)]
                tokenizer = Tokenizer(models)
                if extended and tokenizer.joint != extended.joint:
                    raise HeedError(
                        "tokenizer.vocabulary=extend: the merges of this imported BPE vocabulary give both sides other "
                        "pieces. Set tokenizer.vocabulary=new."
                    )
                tokenizer.save(folder)

        minutes = text.texts[0].clean.preparation.wait_minutes
        return Tokenizer.load(build_once(cache_dir / "tokenizer" / key, build, wait_minutes=minutes))

    def _has_placeholders(self, text: TrainingSet) -> bool:
        """Return whether a model is to learn to copy placeholders from a text, and can; say how many pairs show it."""
        if self.placeholders is False or self.kind == "word":
            return False
        count, what = count_sharing, "a name, a number or protected text"
        if self.placeholders == "auto":
            count, what = count_sharing_spans, "protected text"
        pairs = text.count_in_pairs(count)["pairs"]
        has_enough = pairs >= MIN_PAIRS
        if has_enough or self.placeholders is True:
            said = "are learned" if has_enough else f"are not learned from fewer than {MIN_PAIRS} pairs"
            print_line(f"Placeholders {said}: {pairs:,} pairs share {what}.")
        return has_enough

    def train_models(
        self, words: WordCounts, *, pairs: int, tags: Sequence[str] = (), placeholders: Sequence[str] = ()
    ) -> list[bytes]:
        """Return the models of source and target, trained on the words of a sample of a text of ``pairs`` pairs."""
        texts = [words.src + words.tgt] if self.joint else [words.src, words.tgt]
        return [self._train_model(text, words.pairs / pairs, tags, placeholders) for text in texts]

    def _train_model(
        self, words: Counter[str], share: float, tags: Sequence[str], placeholders: Sequence[str]
    ) -> bytes:
        size = self.vocab_size
        if size == "auto":
            size = self.auto_vocab_size(words, share) + len(placeholders)
        model = io.BytesIO()
        # SentencePiece splits sentences into words and counts them, so word counts give the same BPE model in a
        # fraction of the time. They are sorted, because unigram models depend on the order.
        counted = sorted(((word, count) for word, count in words.items() if word), key=lambda item: (-item[1], item[0]))
        try:
            spm.SentencePieceTrainer.train(
                sentence_iterator=(f"{word}\t{count}" for word, count in counted),
                input_format="tsv",
                model_writer=model,
                model_type=self.kind,
                vocab_size=size,
                hard_vocab_limit=self.vocab_size != "auto",
                byte_fallback=self.byte_fallback,
                character_coverage=self.character_coverage,
                normalization_rule_name=self.normalization,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                control_symbols=list(tags),
                user_defined_symbols=list(placeholders),
                num_threads=THREADS,
                max_sentence_length=2**20,  # bytes; SentencePiece silently skips longer lines
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise HeedError(_explain_error(str(error), size)) from error
        return model.getvalue()

    def auto_vocab_size(self, words: Counter[str], share: float) -> int:
        """Return a vocabulary size for which most pieces are frequent enough to be learned (Gowda and May 2020).

        A corpus of N characters gets 4 √N pieces up to N = 4 million, then growing with N^¼, up to 32,000. The alphabet
        (thousands of characters in Chinese) and the special pieces are added. For English and German the size is 1,272
        for 500 pairs of Multi30k, 7,520 for all 29,000, about 13,000 for IWSLT (160,000 pairs) and 32,000 for WMT
        (4,500,000), as in the literature. ``share`` is the fraction of the text in the sample with these words.
        A vocabulary of words has those that occur twice, up to 32,000; one of characters has the alphabet.
        """
        counts: Counter[str] = Counter()
        for word, count in words.items():
            for character in word:
                counts[character] += count
        seen = sorted(counts.values(), reverse=True)
        total = sum(seen)
        alphabet = bisect_left(list(accumulate(seen)), self.character_coverage * total) + 1
        characters = total / share
        small = 4_000_000
        pieces = min(4 * math.sqrt(characters), 4 * math.sqrt(small) * (characters / small) ** 0.25, 32_000) + alphabet
        if self.kind == "word":
            pieces = min(sum(count > 1 for count in words.values()), 32_000)
        if self.kind == "char":
            pieces = alphabet + 1  # the space
        fixed = len((PAD, UNK, BOS, EOS)) + (2**8 if self.byte_fallback else 0)  # byte fallback adds every byte
        return 8 * math.ceil((pieces + fixed) / 8)  # a multiple of 8 suits accelerators


def _explain_error(message: str, size: int) -> str:
    """Return an error message of SentencePiece in terms of heed's options."""
    if largest := re.search(r"too high \(\d+\).*<= (\d+)", message):
        return f"tokenizer.vocab_size={size} must be at most {largest[1]} for this text (auto chooses a suitable size)."
    if least := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocab_size={size} must be at least {least[1]} to hold the alphabet of this text "
            "(auto chooses a suitable size; a lower tokenizer.character_coverage encodes more characters as bytes)."
        )
    if "all_chars_count" in message:
        return "The training text contains only spaces (SentencePiece reads ▁, U+2581, as a space)."
    return f"SentencePiece could not train a tokenizer with these settings: {message.strip()}"
