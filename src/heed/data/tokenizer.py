"""Subword tokenizers, with SentencePiece. No slow imports at module level, so that ``heed translate`` starts fast."""

import hashlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import sentencepiece as spm
from annotated_types import Interval

from heed.data.bpe_dropout import BPEDropout
from heed.data.cache import blocks, build_once, text_fingerprint
from heed.errors import HeedError
from heed.files import replacing
from heed.options import AtLeast1, UnitInterval, validated
from heed.progress import Progress, announced
from heed.symbols import BOS, EOS, PAD, UNK

if TYPE_CHECKING:
    from datasets import Dataset

THREADS = 4
"""Threads of SentencePiece's training. A constant, because unigram models depend on the number of threads."""

TAGS = EOS + 1, EOS + 2
"""Ids of the language tags, in a vocabulary with tags."""

SECONDS_PER_SENTENCE = {"bpe": 1e-5, "unigram": 6e-5}
"""Rough duration of SentencePiece's training, which reports no progress."""

BYTES = 256
"""Number of pieces that byte fallback adds."""


class Tokenizer:
    """Converts between sentences and token ids, with one SentencePiece model per language or a joint one.

    For a model of both directions, every source starts with a tag for the target language (Johnson et al. 2017, §3).
    The two tags are control pieces of the joint vocabulary; the first is of this direction.

    Args:
        src, tgt: serialized SentencePiece models. ``tgt`` None: ``src`` is a joint model of both languages.
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
        """Size of the source vocabulary."""
        return int(self._src.get_piece_size())

    @property
    def tgt_vocab(self) -> int:
        """Size of the target vocabulary."""
        return int(self._tgt.get_piece_size())

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags of this direction and of the other one; empty for a tokenizer of one direction."""
        return tuple(self.src_pieces(self._tags))

    def encode_src(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of source sentences, without BOS and EOS. A non-empty sentence starts with the tag, if any."""
        return [[*self._tags[:1], *ids] if ids else [] for ids in _encode(self._src, self._src_dropout, sentences)]

    def encode_tgt(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the ids of target sentences, without BOS and EOS."""
        return _encode(self._tgt, self._tgt_dropout, sentences)

    def sampling(self, rate: float, *, seed: Sequence[int]) -> "Tokenizer":
        """Return the tokenizer with random segmentations, see `BPEDropout`.

        Args:
            rate: probability of dropping a merge, in [0, 1).
            seed: seed of the random numbers.
        """
        sampling = copy(self)
        sampling._src_dropout = BPEDropout(self._src, rate=rate, seed=f"{seed}")
        sampling._tgt_dropout = (
            sampling._src_dropout if self.joint else BPEDropout(self._tgt, rate=rate, seed=f"{seed} tgt")
        )
        return sampling

    def reversed(self) -> "Tokenizer":
        """Return the tokenizer of the other direction, for a model of both directions."""
        assert self.joint
        reverse = copy(self)
        reverse._tags = self._tags[::-1]
        return reverse

    def decode_tgt(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the target sentences of token ids. PAD, BOS and EOS are dropped; line breaks become spaces.

        Decoding inverts encoding except for leading, trailing and repeated spaces, and for "▁" (U+2581), which
        SentencePiece reads as a space.
        """
        kept = [[int(token) for token in sentence if token not in (PAD, BOS, EOS)] for sentence in ids]
        return [text.replace("\n", " ").replace("\r", " ") for text in self._tgt.decode(kept)]

    def src_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of source ids; "▁" starts a word."""
        return [self._src.id_to_piece(int(token)) for token in ids]

    def tgt_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of target ids; "▁" starts a word."""
        return [self._tgt.id_to_piece(int(token)) for token in ids]

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.model``, or ``src.model`` and ``tgt.model``."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, model in zip(_files(joint=self.joint), self._models, strict=True):
            with replacing(folder / name) as file:
                file.write_bytes(model)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read a tokenizer that `save` wrote.

        Raises:
            HeedError: if the files are missing, are not SentencePiece models, or have other ids for special symbols.
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
                raise HeedError(f"{file} is not a SentencePiece model, or it is damaged: copy it again.") from error
            ids = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
            if ids != (PAD, UNK, BOS, EOS):
                raise HeedError(
                    f"{file} was not trained by heed: its ids of pad, unk, bos, eos are {ids} and must be "
                    f"{(PAD, UNK, BOS, EOS)}."
                )
        return cls(models[0], None if joint else models[1])


def _encode(
    processor: spm.SentencePieceProcessor, dropout: BPEDropout | None, sentences: Sequence[str]
) -> list[list[int]]:
    ids: list[list[int]] = processor.encode(list(sentences))
    return [dropout(sentence) for sentence in ids] if dropout else ids


def _files(*, joint: bool) -> tuple[str, ...]:
    return ("tokenizer.model",) if joint else ("src.model", "tgt.model")


@validated("tokenizer.")
class TokenizerTrainer:
    """Trains a tokenizer on the training split.

    The names of the attributes are part of the cache key of a trained tokenizer.

    Args:
        kind: "bpe" (Sennrich et al. 2016) or "unigram" (Kudo 2018).
        joint: one vocabulary for both languages, which tied embeddings need, or one per language.
        vocab_size: pieces per vocabulary, including special symbols. "auto": a size that suits the text
            (`auto_vocab_size`), or fewer pieces if the text does not have as many.
        byte_fallback: encode unknown characters as bytes, so that no text is unknown.
        character_coverage: fraction of the text's characters, in [0.9, 1], that are covered by pieces; the rarest
            characters are left out.
        normalization: SentencePiece's normalization rule. "identity" keeps the text; "nmt_nfkc" changes it (№ to No).
        max_sentences: train on at most this many sentences per side, evenly spaced over the training split.
        sampling: BPE-dropout rate of the training split, in [0, 1), see `BPEDropout`. 0: no dropout.

    Raises:
        HeedError: if an argument is out of range, or if ``sampling`` is used with a unigram model.
    """

    def __init__(
        self,
        *,
        kind: Literal["bpe", "unigram"],
        joint: bool,
        vocab_size: Literal["auto"] | Annotated[int, Interval(ge=1, le=2**31 - 1)],
        byte_fallback: bool,
        character_coverage: Annotated[float, Interval(ge=0.98, le=1)],
        normalization: str,
        max_sentences: AtLeast1,
        sampling: UnitInterval,
    ) -> None:
        if sampling and kind != "bpe":
            raise HeedError(
                f"tokenizer.sampling={sampling} drops BPE merges: set tokenizer.kind=bpe or tokenizer.sampling=0."
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
        """Return a tokenizer trained on these pairs. It is cached: trained once per text and settings.

        Args:
            train: the training pairs (columns "src" and "tgt").
            cache_dir: folder of the cache.
            tags: language tags of a model of both directions, see `Tokenizer`.

        Raises:
            HeedError: if ``vocab_size`` is impossible for this text; the message contains the bound.
        """
        if tags and not self.joint:
            raise HeedError(
                "data.both_directions=true needs one vocabulary for both languages: set tokenizer.joint=true."
            )
        learned = {name: value for name, value in vars(self).items() if name != "sampling"}
        settings = repr((spm.__version__, THREADS, sorted(learned.items()), text_fingerprint(train), *tags))
        key = hashlib.blake2b(settings.encode(), digest_size=8).hexdigest()
        return Tokenizer.load(
            build_once(
                Path(cache_dir) / "tokenizer" / key, lambda folder: self._train_tokenizer(train, tags).save(folder)
            )
        )

    def _train_tokenizer(self, train: "Dataset", tags: Sequence[str]) -> Tokenizer:
        if self.joint:
            return Tokenizer(self._train_model(train, "src", "tgt", tags=tags), None)
        return Tokenizer(self._train_model(train, "src"), self._train_model(train, "tgt"))

    def _train_model(self, train: "Dataset", *sides: str, tags: Sequence[str] = ()) -> bytes:
        size = self.auto_vocab_size(train, *sides) if self.vocab_size == "auto" else self.vocab_size
        model = io.BytesIO()
        sentences = min(len(train), self.max_sentences) * len(sides)
        try:
            with announced(
                "Training the tokenizer",
                f"{self.kind}, {size:,} pieces, {sentences:,} sentences",
                expected_seconds=sentences * SECONDS_PER_SENTENCE[self.kind],
            ):
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
                    max_sentence_length=2**20,  # bytes; SentencePiece silently skips longer lines
                    minloglevel=2,
                )
        except (RuntimeError, OSError) as error:
            raise HeedError(_explain_error(str(error), size)) from error
        return model.getvalue()

    def auto_vocab_size(self, train: "Dataset", *sides: str) -> int:
        """Return a vocabulary size for which most pieces are frequent enough to be learned (Gowda and May 2020).

        A corpus of N characters gets 4 √N pieces up to N = 4 million, then growing with N^¼, up to 32,000. The alphabet
        (thousands of characters in Chinese) and the special pieces are added. For English and German that is 1,272 for
        500 pairs of Multi30k, 7,520 for all 29,000, about 13,000 for IWSLT (160,000 pairs) and 32,000 for WMT
        (4,500,000), as in the literature.
        """
        import numpy as np

        counts = np.zeros(0x110000, dtype=np.int64)
        for sentences in self._sample_blocks(train, *sides):
            text = np.frombuffer("".join(sentences).replace(" ", "").encode("utf-32-le"), dtype="<u4")
            counts += np.bincount(text, minlength=len(counts))
        seen = np.sort(counts[counts > 0])[::-1]
        alphabet = int(np.searchsorted(np.cumsum(seen), self.character_coverage * seen.sum())) + 1
        characters = int(seen.sum()) * max(1.0, len(train) / self.max_sentences)
        small = 4_000_000
        pieces = min(4 * math.sqrt(characters), 4 * math.sqrt(small) * (characters / small) ** 0.25, 32_000)
        fixed = len((PAD, UNK, BOS, EOS)) + (BYTES if self.byte_fallback else 0)
        return 8 * math.ceil(
            (pieces + alphabet + fixed) / 8
        )  # accelerators multiply matrices faster if sizes are multiples of 8

    def _sentences(self, train: "Dataset", *sides: str) -> Iterator[str]:
        return chain.from_iterable(self._sample_blocks(train, *sides))

    def _sample_blocks(self, train: "Dataset", *sides: str) -> Iterator[list[str]]:
        """Yield blocks of all sentences, or of ``max_sentences`` per side, evenly spaced in case the file is sorted."""
        if len(train) > self.max_sentences:
            train = train.select([row * len(train) // self.max_sentences for row in range(self.max_sentences)])
        with Progress("Reading text for the tokenizer", total=len(train), unit="pairs") as bar:
            for src, tgt in blocks(train):
                for side in sides:
                    yield {"src": src, "tgt": tgt}[side]
                bar.update(len(src))


def _explain_error(message: str, size: int) -> str:
    """Translate an error message of SentencePiece into one about heed's options."""
    if largest := re.search(r"too high \(\d+\).*<= (\d+)", message):
        return (
            f"tokenizer.vocab_size={size} is more than this text has pieces: the largest possible is {largest[1]} "
            "(auto chooses a suitable size)."
        )
    if least := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocab_size={size} is less than the text's alphabet: the smallest possible is {least[1]} "
            "(auto chooses a suitable size; a lower tokenizer.character_coverage encodes more characters as bytes)."
        )
    if "all_chars_count" in message:
        return "The training text contains only spaces (SentencePiece reads ▁, U+2581, as a space)."
    return f"SentencePiece could not train a tokenizer with these settings: {message.strip()}"
