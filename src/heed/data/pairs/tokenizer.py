"""Subword tokenizers, with SentencePiece. It has no slow imports, so that ``heed translate`` starts fast."""

import hashlib
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import sentencepiece as spm

from heed.errors import HeedError
from heed.files import write_file
from heed.languages import LANGUAGE_TAG, language_tag
from heed.symbols import BOS, EOS, PAD, PLACEHOLDERS, UNK, UNK_BYTE, WORD_START, WORD_START_BYTE

FILES = {1: ("tokenizer.model",), 2: ("src.model", "tgt.model")}
"""File names of one SentencePiece model, and of one for each side."""

VOCABULARY_END = "</vocabulary>"
"""A control piece after the last piece with an id. The pieces after it segment text, and are UNK.

Imported models have it (`heed.exchange.from_huggingface`): two SentencePiece models with one vocabulary, which may lack
pieces of each.
"""


class Tokenizer:
    """Converts between sentences and token ids, with one SentencePiece model per language or a joint one.

    Two models that end with `VOCABULARY_END` and have the same pieces before are joint, too.

    For a model of several target languages, every source starts with a tag for the target language (Johnson et al.
    2017, §3). The tags are control pieces of the joint vocabulary. The first tag is the default, see `towards`.

    Args:
        models: the serialized SentencePiece models of source and target, or a joint one of both languages.
        threads: number of threads to encode a list of sentences; -1: one per core.
    """

    def __init__(self, models: Sequence[bytes], *, threads: int = -1) -> None:
        self.models, self.threads = tuple(models), threads
        self.digest = hashlib.blake2b(b"".join(models), digest_size=16).hexdigest()
        processors = [spm.SentencePieceProcessor(model_proto=model) for model in models]
        self.processors = self._src, self._tgt = processors[0], processors[-1]
        """The SentencePiece processors of source and target."""
        self.src_vocab, self.tgt_vocab = map(vocabulary_size, self.processors)
        """Sizes of the vocabularies."""
        has_end = self.src_vocab < self._src.get_piece_size()
        self.joint = len(models) == 1 or (has_end and self.src_pieces(range(self.src_vocab)) == self._all_tgt_pieces)
        """Whether both sides have the same pieces with the same ids."""
        # Tags follow the special symbols or, in an extended vocabulary, the pieces before it.
        tags = {self._src.id_to_piece(id_): id_ for id_ in range(EOS + 1, self.src_vocab) if self._src.is_control(id_)}
        self.language_tags = {tag: piece for tag, piece in tags.items() if tag.startswith(LANGUAGE_TAG)}
        """Ids of the language tags, such as "<2de>"; empty with a single target language."""
        self.tags = tuple(self.language_tags)
        self.text_tags = {tag: piece for tag, piece in tags.items() if not tag.startswith(LANGUAGE_TAG)}
        """Ids of the tags of training texts (`heed.data.text.corpus.Text`)."""
        self.tag_ids = tuple(self.language_tags.values())[:1]
        """The ids of the tags at the start of every source, see `towards` and `tagged`."""

    @property
    def vocabulary(self) -> dict[str, Any]:
        """The arguments of `heed.models.build_model` that describe the vocabularies."""
        return {"src_vocab": self.src_vocab, "tgt_vocab": self.tgt_vocab, "joint": self.joint}

    @cached_property
    def reads_letters(self) -> bool:
        """Whether any source piece has a letter, which is not so for a model of numbers or symbols."""
        ids = [
            id_ for id_ in range(EOS + 1, self.src_vocab) if not (self._src.is_control(id_) or self._src.is_byte(id_))
        ]
        return any(map(str.isalpha, "".join(self.src_pieces(ids))))

    @cached_property
    def has_words(self) -> bool:
        """Whether every piece is a word, so that a word without a piece is UNK."""
        ids = filter(
            lambda id_: not (self._tgt.is_control(id_) or self._tgt.is_byte(id_)), range(EOS + 1, self.tgt_vocab)
        )
        return all(piece.startswith(WORD_START) for piece in self.tgt_pieces([*ids]))

    @cached_property
    def placeholders(self) -> dict[str, int]:
        """The target ids of `PLACEHOLDERS`; empty for a vocabulary that was trained without them."""
        ids = {char: self._tgt.piece_to_id(char) for char in PLACEHOLDERS}
        # Reserved pieces have the score 0, and pieces of text a lower one.
        are_reserved = all(id_ != UNK and self._tgt.get_score(id_) == 0 for id_ in ids.values())
        return ids if are_reserved else {}

    @cached_property
    def tgt_texts(self) -> list[bytes]:
        """The text of each target piece in UTF-8, with `WORD_START_BYTE` and `UNK_BYTE`; empty for PAD, BOS and EOS."""

        def text(id_: int, piece: str) -> bytes:
            if self._tgt.is_byte(id_):
                return bytes([min(int(piece[3:-1], 16), 0xFC)])  # UTF-8 has none from 0xF5 on: the last three are marks
            return b"" if self._tgt.is_control(id_) else WORD_START_BYTE.join(map(str.encode, piece.split(WORD_START)))

        texts = map(text, range(self.tgt_vocab), self._all_tgt_pieces)
        return [UNK_BYTE if id_ == UNK else each for id_, each in enumerate(texts)]

    def with_known_spaces(self, text: str) -> str:
        """Return a source text with a space for each character of white space for which there is no piece."""
        ids = {char: self._src.encode(char) for char in {*text} if char.isspace() and char != " "}
        unknown = [char for char in ids if any(id_ == UNK or self._src.is_byte(id_) for id_ in ids[char])]
        return text.translate(dict.fromkeys(map(ord, unknown), " "))

    def encode_src(self, sentences: Sequence[str], *, tagged: bool = True) -> list[list[int]]:
        """Return the ids of source sentences, without BOS and EOS; ``tagged``, if not empty, with tags."""
        tags = self.tag_ids if tagged else ()
        ids = self._encode(self._src, list(sentences))
        return [[*tags, *sentence] if sentence else [] for sentence in ids]

    def encode_tgt(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of target sentences, without BOS and EOS."""
        return self._encode(self._tgt, list(sentences))

    def unknown_tgt(self, sentence: str) -> list[str]:
        """Return the parts of a target sentence that become UNK, in their order."""
        if self.has_words:
            words = enumerate(_words(self._tgt, sentence))
            return [
                f" {word}"[place == 0 :] for place, word in words if self._tgt.piece_to_id(WORD_START + word) == UNK
            ]
        pieces = zip(self._tgt.encode(sentence, out_type=str), *self._encode(self._tgt, [sentence]), strict=True)
        return [text for text, id_ in pieces if id_ == UNK]

    def _encode(self, processor: spm.SentencePieceProcessor, sentences: list[str]) -> list[list[int]]:
        ids: list[list[int]] = list(processor.encode(sentences, num_threads=self.threads))
        size = vocabulary_size(processor)
        if size < processor.get_piece_size():
            ids = [self._shared_ids(processor, *row, size) for row in zip(sentences, ids, strict=True)]
        for row, sentence in enumerate(sentences) if self.has_words else ():
            if UNK in ids[row]:  # SentencePiece unites adjacent unknown words
                ids[row] = [processor.piece_to_id(WORD_START + word) for word in _words(processor, sentence)]
        return ids

    @staticmethod
    def _shared_ids(processor: spm.SentencePieceProcessor, sentence: str, ids: list[int], size: int) -> list[int]:
        """Return ids of a vocabulary that ends with `VOCABULARY_END`.

        A character that only the other side's model knows is UNK for SentencePiece, but its text may be a piece.
        """
        if UNK in ids:
            texts = processor.encode(sentence, out_type=str)
            ids = [id_ if id_ != UNK else processor.piece_to_id(text) for id_, text in zip(ids, texts, strict=True)]
        return [id_ if id_ < size and not processor.is_control(id_) else UNK for id_ in ids]

    def towards(self, tgt_lang: str) -> "Tokenizer":
        """Return a tokenizer that tags sources for a target language, if this language has a tag."""
        other = copy(self)
        if (tag := language_tag(tgt_lang)) in self.language_tags:
            other.tag_ids = (self.language_tags[tag], *self.tag_ids[1:])
        return other

    def tagged(self, tag: str) -> "Tokenizer":
        """Return a tokenizer that starts sources with the tag of a training text, after that of the language."""
        other = copy(self)
        other.tag_ids = (*self.tag_ids[: bool(self.tags)], self.text_tags[tag])
        return other

    def source_tags(self, tgt_lang: str, tag: str | None) -> tuple[int, ...]:
        """Return the ids that start every source of a training text: of its target language, then of its own tag.

        Raise a HeedError if there is no such tag: the tokenizer of a finished model (``init_from``) may have been
        trained for other texts.
        """
        if tag is not None and tag not in self.text_tags:
            raise HeedError(
                f"This tokenizer has no tag {tag} for a text: choose a tag that its model was trained with "
                f"({', '.join(self.text_tags) or 'it has none'}), or leave out the tag in data.train."
            )
        directed = self.towards(tgt_lang)
        return (directed if tag is None else directed.tagged(tag)).tag_ids

    def decode_tgt(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the target sentences of token ids. PAD, BOS and EOS are dropped; tabs and line breaks become spaces.

        Decoding inverts encoding except for leading, trailing and repeated spaces, and for "▁" (U+2581), a space for
        SentencePiece.
        """
        kept = [[int(token) for token in sentence if token not in (PAD, BOS, EOS)] for sentence in ids]
        # A model of bytes can write any of them, and translations are lines and columns of files.
        return [text.replace("\n", " ").replace("\r", " ").replace("\t", " ") for text in self._tgt.decode(kept)]

    def decode_src(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the source sentences of token ids without tags, BOS and EOS."""
        return list(self._src.decode([list(sentence) for sentence in ids]))

    def src_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of source ids. "▁" starts a word."""
        return [self._src.id_to_piece(int(token)) for token in ids]

    @property
    def _all_tgt_pieces(self) -> list[str]:
        return self.tgt_pieces(range(self.tgt_vocab))

    def tgt_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of target ids. "▁" starts a word."""
        return [self._tgt.id_to_piece(int(token)) for token in ids]

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.model``, or ``src.model`` and ``tgt.model`` for two models."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, model in zip(FILES[len(self.models)], self.models, strict=True):
            write_file(folder / name, model, durable=True)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read a tokenizer that `save` wrote, or raise a HeedError if it is missing, damaged or not from heed."""
        models = []
        for name in FILES[1 if (folder / "tokenizer.model").is_file() else 2]:
            file = folder / name
            if not file.is_file():
                raise HeedError(f"{folder} holds no tokenizer: neither tokenizer.model nor src.model and tgt.model.")
            models.append(file.read_bytes())
            processor = spm.SentencePieceProcessor()
            try:
                processor.load_from_serialized_proto(models[-1])
            except (RuntimeError, UnicodeDecodeError) as error:
                raise HeedError(f"{file} is not a SentencePiece model, or it is damaged: copy it again.") from error
            ids = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
            if ids != (PAD, UNK, BOS, EOS):
                raise HeedError(
                    f"{file} was not trained by heed: its ids of pad, unk, bos, eos are {ids} and must be "
                    f"{(PAD, UNK, BOS, EOS)}."
                )
        return cls(models)


def vocabulary_size(processor: spm.SentencePieceProcessor) -> int:
    """Return the number of pieces before `VOCABULARY_END`, of all if it is not there."""
    end = int(processor.piece_to_id(VOCABULARY_END))
    return int(processor.get_piece_size()) if processor.is_unknown(end) else end


def _words(processor: spm.SentencePieceProcessor, sentence: str) -> list[str]:
    """Return the words of a sentence as SentencePiece normalizes it."""
    return "".join(processor.encode(sentence, out_type=str)).split(WORD_START)[1:]
