"""Sentences ↔ subword ids, with SentencePiece. Nothing heavy is imported here: ``heed translate`` starts with it."""

import hashlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import sentencepiece as spm

from heed.data.bpe_dropout import BPEDropout
from heed.data.cache import blocks, build_once, text_fingerprint
from heed.errors import HeedError
from heed.files import replacing
from heed.options import Share
from heed.symbols import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from datasets import Dataset

THREADS = 4
"""Unigram models differ between thread counts: a constant, so that every machine builds the same one."""

TAGS = EOS + 1, EOS + 2
"""Where the tags stand, in a vocabulary that has some."""

BYTES = 256
"""Pieces that byte fallback adds."""


class Tokenizer:
    """One SentencePiece model for both languages (``joint``), or one each.

    A model of both directions opens every source with a tag that tells the language to translate into (Johnson et al.
    2017, §3); its two tags are control pieces of the joint vocabulary, this direction's first.

    Args:
        src, tgt: serialized models; None as ``tgt``: ``src`` serves both.
    """

    def __init__(self, src: bytes, tgt: bytes | None) -> None:
        self.joint = tgt is None
        self._models = [src] if tgt is None else [src, tgt]
        processors = [spm.SentencePieceProcessor(model_proto=model) for model in self._models]
        self._src, self._tgt = processors[0], processors[-1]
        self.hash = hashlib.blake2b(b"".join(self._models), digest_size=16).hexdigest()
        self._tags = [piece for piece in TAGS if piece < self.src_vocab and self._src.is_control(piece)]
        self._src_dropout: BPEDropout | None = None
        self._tgt_dropout: BPEDropout | None = None

    @property
    def src_vocab(self) -> int:
        return int(self._src.get_piece_size())

    @property
    def tgt_vocab(self) -> int:
        return int(self._tgt.get_piece_size())

    @property
    def tags(self) -> tuple[str, ...]:
        """What opens a source in this direction, and in the other one; nothing where there is one direction only."""
        return tuple(self.src_pieces(self._tags))

    def encode_src(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of source sentences, without BOS and EOS; behind the tag, where there is one and something to say."""
        return [[*self._tags[:1], *ids] if ids else [] for ids in _encode(self._src, self._src_dropout, sentences)]

    def encode_tgt(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of target sentences, without BOS and EOS."""
        return _encode(self._tgt, self._tgt_dropout, sentences)

    def sampling(self, rate: float, *, seed: Sequence[int]) -> "Tokenizer":
        """The same tokenizer, drawing a segmentation for every sentence that it encodes: see `BPEDropout`."""
        drawing = copy(self)
        drawing._src_dropout = BPEDropout(self._src, rate=rate, seed=f"{seed}")
        drawing._tgt_dropout = (
            drawing._src_dropout if self.joint else BPEDropout(self._tgt, rate=rate, seed=f"{seed} tgt")
        )
        return drawing

    def reversed(self) -> "Tokenizer":
        """The tokenizer of the other direction, for a model of both."""
        assert self.joint
        turned = copy(self)
        turned._tags = self._tags[::-1]
        return turned

    def decode_tgt(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Target sentences, one line each, whatever the ids: PAD, BOS and EOS are dropped, line breaks become spaces.

        Gives back what was encoded, but for runs of spaces, outer spaces and "▁" (U+2581), which SentencePiece
        takes for a space.
        """
        kept = [[int(token) for token in sentence if token not in (PAD, BOS, EOS)] for sentence in ids]
        return [text.replace("\n", " ").replace("\r", " ") for text in self._tgt.decode(kept)]

    def src_pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces behind source ids, as one writes them under an attention map ("▁" opens a word)."""
        return [self._src.id_to_piece(int(token)) for token in ids]

    def tgt_pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces behind target ids."""
        return [self._tgt.id_to_piece(int(token)) for token in ids]

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.model``, or ``src.model`` and ``tgt.model``."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, model in zip(_files(joint=self.joint), self._models, strict=True):
            with replacing(folder / name) as file:
                file.write_bytes(model)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read what `save` wrote.

        Raises:
            HeedError: if the files are missing, are no SentencePiece models, or have other special symbols.
        """
        joint = (folder / _files(joint=True)[0]).is_file()
        models = []
        for name in _files(joint=joint):
            file = folder / name
            if not file.is_file():
                raise HeedError(f"{folder} holds no tokenizer: neither tokenizer.model, nor src.model and tgt.model.")
            models.append(file.read_bytes())
            processor = spm.SentencePieceProcessor()
            try:
                processor.load_from_serialized_proto(models[-1])
            except (RuntimeError, UnicodeDecodeError) as error:
                raise HeedError(f"{file} is not a SentencePiece model, or a damaged one.") from error
            ids = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
            if ids != (PAD, UNK, BOS, EOS):
                raise HeedError(
                    f"{file} is a foreign model: pad, unk, bos, eos are {ids} and must be {(PAD, UNK, BOS, EOS)}."
                )
        return cls(models[0], None if joint else models[1])


def _encode(
    processor: spm.SentencePieceProcessor, dropout: BPEDropout | None, sentences: Sequence[str]
) -> list[list[int]]:
    ids: list[list[int]] = processor.encode(list(sentences))
    return [dropout(sentence) for sentence in ids] if dropout else ids


def _files(*, joint: bool) -> tuple[str, ...]:
    return ("tokenizer.model",) if joint else ("src.model", "tgt.model")


class TokenizerTrainer:
    """How a tokenizer is learned: from the training split alone.

    Args:
        kind: "bpe" (Sennrich et al. 2016) or "unigram" (Kudo 2018).
        joint: one vocabulary for both languages, which is what tied embeddings need; or one each.
        vocab_size: pieces in all, per vocabulary; "auto" fits them to the text (`auto_vocab_size`), and takes fewer
            where there are no more.
        byte_fallback: spell unknown characters as bytes, so that nothing is unknown.
        character_coverage: share of the text's characters that get a piece of their own; the rarest rest does not.
        normalization: SentencePiece's rule. "identity" keeps text as it is; "nmt_nfkc" loses some (№ becomes No).
        max_sentences: learn from so many sentences per side, evenly spaced over the training split.
        sampling: rate of BPE-dropout in the training split, drawn anew in every epoch (`BPEDropout`); 0: none.
    """

    def __init__(
        self,
        *,
        kind: Literal["bpe", "unigram"],
        joint: bool,
        vocab_size: int | Literal["auto"],
        byte_fallback: bool,
        character_coverage: float,
        normalization: str,
        max_sentences: int,
        sampling: Share,
    ) -> None:
        if kind not in ("bpe", "unigram"):
            raise HeedError(f"tokenizer.kind is bpe or unigram, not {kind!r}.")
        if vocab_size != "auto" and (not isinstance(vocab_size, int) or not 1 <= vocab_size < 2**31):
            raise HeedError(f"tokenizer.vocab_size={vocab_size} must be auto or a whole number from 1 to 2^31 - 1.")
        if not 0.9 <= character_coverage <= 1:
            raise HeedError(f"tokenizer.character_coverage is a share between 0.9 and 1, not {character_coverage}.")
        if max_sentences < 1:
            raise HeedError(f"tokenizer.max_sentences is a number of sentences, not {max_sentences}.")
        if sampling and kind != "bpe":
            raise HeedError(
                f"tokenizer.sampling={sampling} leaves out merges of BPE: set tokenizer.kind=bpe, or it to 0."
            )
        self.kind = kind
        self.joint = joint
        self.vocab_size = vocab_size
        self.byte_fallback = byte_fallback
        self.character_coverage = character_coverage
        self.normalization = normalization
        self.max_sentences = max_sentences
        self.sampling = sampling

    def train(self, train: "Dataset", cache_dir: Path | str, *, tags: Sequence[str] = ()) -> Tokenizer:
        """The tokenizer of these pairs (columns "src" and "tgt"), learned once per text and settings and then cached.

        Args:
            tags: of a model of both directions, see `Tokenizer`.

        Raises:
            HeedError: if an explicit vocabulary size is impossible for this text; says which ones are.
        """
        if tags and not self.joint:
            raise HeedError(
                "data.both_directions=true needs one vocabulary, in which each language is source and target: set "
                "tokenizer.joint=true."
            )
        learned = {name: value for name, value in vars(self).items() if name != "sampling"}
        settings = repr((spm.__version__, THREADS, sorted(learned.items()), text_fingerprint(train), *tags))
        key = hashlib.blake2b(settings.encode(), digest_size=8).hexdigest()
        return Tokenizer.load(
            build_once(Path(cache_dir) / "tokenizer" / key, lambda folder: self._learn(train, tags).save(folder))
        )

    def _learn(self, train: "Dataset", tags: Sequence[str]) -> Tokenizer:
        if self.joint:
            return Tokenizer(self._model(train, "src", "tgt", tags=tags), None)
        return Tokenizer(self._model(train, "src"), self._model(train, "tgt"))

    def _model(self, train: "Dataset", *sides: str, tags: Sequence[str] = ()) -> bytes:
        size = self.auto_vocab_size(train, *sides) if self.vocab_size == "auto" else self.vocab_size
        model = io.BytesIO()
        try:
            spm.SentencePieceTrainer.train(
                sentence_iterator=self._sentences(train, *sides),
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
                num_threads=THREADS,
                max_sentence_length=2
                ** 20,  # bytes; SentencePiece skips longer lines silently, and cleaning has had its say
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise HeedError(_explanation(str(error), size)) from error
        return model.getvalue()

    def auto_vocab_size(self, train: "Dataset", *sides: str) -> int:
        """A vocabulary that fits the text: most pieces should be seen often enough to be learned (Gowda and May 2020).

        Of N characters, 4 √N pieces while the corpus is small, then growing with the fourth root, up to 32,000; on top
        of that the alphabet (thousands of characters in Chinese) and the fixed pieces. For English and German that is
        1,272 for 500 pairs of Multi30k and 7,520 for all 29,000, and about 13,000 for IWSLT (160,000 pairs) and 32,000
        for WMT (4,500,000), as is the practice.
        """
        import numpy as np

        counts = np.zeros(0x110000, dtype=np.int64)
        for sentence_block in self._sampled(train, *sides):
            text = np.frombuffer("".join(sentence_block).replace(" ", "").encode("utf-32-le"), dtype="<u4")
            counts += np.bincount(text, minlength=len(counts))
        seen = np.sort(counts[counts > 0])[::-1]
        alphabet = int(np.searchsorted(np.cumsum(seen), self.character_coverage * seen.sum())) + 1
        characters = int(seen.sum()) * max(1.0, len(train) / self.max_sentences)
        small = 4_000_000
        pieces = min(4 * math.sqrt(characters), 4 * math.sqrt(small) * (characters / small) ** 0.25, 32_000)
        fixed = len((PAD, UNK, BOS, EOS)) + (BYTES if self.byte_fallback else 0)
        return 8 * math.ceil((pieces + alphabet + fixed) / 8)  # products with multiples of 8 suit every accelerator

    def _sentences(self, train: "Dataset", *sides: str) -> Iterator[str]:
        return chain.from_iterable(self._sampled(train, *sides))

    def _sampled(self, train: "Dataset", *sides: str) -> Iterator[list[str]]:
        """Blocks of sentences: all, or ``max_sentences`` per side in even steps, so that sorted files are covered."""
        if len(train) > self.max_sentences:
            train = train.select([row * len(train) // self.max_sentences for row in range(self.max_sentences)])
        for src, tgt in blocks(train):
            for side in sides:
                yield {"src": src, "tgt": tgt}[side]


def _explanation(message: str, size: int) -> str:
    """SentencePiece's complaint as a sentence: its messages carry the numbers, its exceptions do not."""
    if largest := re.search(r"too high \(\d+\).*<= (\d+)", message):
        return (
            f"tokenizer.vocab_size={size} is more than this text has pieces: the largest possible is {largest[1]} "
            "(auto finds a fitting one)."
        )
    if least := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocab_size={size} is less than the text's alphabet: the smallest possible is {least[1]} "
            "(auto finds a fitting one; a lower tokenizer.character_coverage leaves more characters to byte fallback)."
        )
    if "all_chars_count" in message:
        return "The training text has no characters but spaces (SentencePiece reads ▁, U+2581, as a space)."
    return f"SentencePiece could not learn a tokenizer with these settings: {message.strip()}"
