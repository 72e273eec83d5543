"""Another vocabulary for a trained model: extend its tokenizer, and spell new pieces with old ones."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from heed.data.pairs.tokenizer import VOCABULARY_END, Tokenizer, vocabulary_size
from heed.data.text.source import Sentences
from heed.symbols import UNK

NORMAL, CONTROL = 1, 3
"""SentencePiece's types of the pieces of text, and of symbols that no text has."""
Spellings = Sequence[Sequence[int]]
"""For each piece of a vocabulary, the ids of another vocabulary that spell it; empty if it has none."""


def fixed_options(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the options of a tokenizer that are the same for its extensions."""
    model = ModelProto.FromString(tokenizer.models[0])
    return {
        "kind": model.trainer_spec.ModelType.Name(model.trainer_spec.model_type).lower(),
        "joint": tokenizer.joint,
        "byte_fallback": model.trainer_spec.byte_fallback,
        "normalization": model.normalizer_spec.name,
    }


def extend(old: bytes, new: bytes, tags: Sequence[str] = ()) -> bytes:
    """Return a SentencePiece model with the pieces of ``old``, then the tags and pieces of ``new`` that it lacks.

    The merges of BPE that are added come after all old ones. If old and added merges would not lead to a piece, further
    ones are added from left to right. So text without an added piece keeps its ids. Of two unigram models with one
    vocabulary, both get the same pieces.
    """
    model, candidates = ModelProto.FromString(old), ModelProto.FromString(new).pieces
    names = [piece.piece for piece in model.pieces]
    size = names.index(VOCABULARY_END) if VOCABULARY_END in names else len(names)
    beyond = ModelProto(pieces=model.pieces[size:])
    del model.pieces[size:]
    segmenting = {piece.piece: piece.score for piece in beyond.pieces}
    scores = {piece.piece: piece.score for piece in model.pieces}
    lowest = min(scores.values())

    def add(piece: str, score: float | None = None, kind: int = NORMAL) -> str:
        if piece not in scores:
            score = lowest - 1 - len(scores) + size if score is None else score
            scores[piece] = segmenting.get(piece, score)
            model.pieces.add(piece=piece, score=scores[piece], type=kind)
        return piece

    for tag in tags:
        add(tag, 0.0, CONTROL)
    is_bpe = model.trainer_spec.model_type == model.trainer_spec.BPE
    normal = [piece for piece in candidates if piece.type == NORMAL]
    for piece in normal:
        if len(piece.piece) == 1 or not is_bpe:
            add(piece.piece, None if is_bpe else piece.score)
    if is_bpe:
        with_characters = _bare(model)
        for piece in normal:
            parts = with_characters.encode(piece.piece, out_type=str) if piece.piece not in scores else []
            while len(parts) > 1:
                pairs = [left + right for left, right in pairwise(parts)]
                first = max(range(len(pairs)), key=lambda place: scores.get(pairs[place], -float("inf")))
                parts[first : first + 2] = [add(pairs[first])]
    model.pieces.extend(piece for piece in beyond.pieces if piece.piece not in scores)
    return bytes(model.SerializeToString(deterministic=True))


def spell(new: Tokenizer, old: Tokenizer) -> tuple[Spellings, Spellings]:
    """Return the spellings of the source and target pieces of ``new``, in ids of ``old`` without UNK.

    Pieces and symbols that ``old`` has are spelled by themselves.
    """
    sides = [
        _spell(spm.SentencePieceProcessor(model_proto=model), ModelProto.FromString(before))
        for model, before in zip(new.models, old.models, strict=False)  # one of two that are joint is enough
    ]
    return sides[0], sides[-1]


def describe_change(new: Tokenizer, old: Tokenizer, spellings: Sequence[Spellings], text: Sentences) -> str:
    """Return where the pieces of ``new`` start from, and how many tokens of a text ``old`` segments differently."""
    lengths = Counter(len(ids) for side in spellings[: 1 if new.joint else 2] for ids in side)
    before, after = (
        [*map(t.src_pieces, t.encode_src(text.src, tagged=False)), *map(t.tgt_pieces, t.encode_tgt(text.tgt))]
        for t in (old, new)
    )
    changed = sum((Counter(a) - Counter(b)).total() for a, b in zip(before, after, strict=True))
    tokens, now = (sum(map(len, sentences)) for sentences in (before, after))
    return (
        f"{lengths.total():,} pieces: {lengths[1]:,} keep their weights or have those of one piece, "
        f"{lengths.total() - lengths[0] - lengths[1]:,} have the mean of several, {lengths[0]:,} are new; "
        f"{changed / max(tokens, 1):.0%} of the {tokens:,} tokens of the validation set change, which has {now:,} now"
    )


def _spell(new: spm.SentencePieceProcessor, model: ModelProto) -> Spellings:
    old = _bare(model)
    size = vocabulary_size(old)

    def spelling(id_: int) -> list[int]:
        piece = new.id_to_piece(id_)
        own = old.piece_to_id(piece)
        if id_ == UNK or (own != UNK and own < size):
            return [own]
        is_text = not (new.is_control(id_) or new.is_byte(id_))
        return [id_ for id_ in old.encode(piece) if id_ != UNK and id_ < size] if is_text else []

    return [spelling(id_) for id_ in range(vocabulary_size(new))]


def _bare(model: ModelProto) -> spm.SentencePieceProcessor:
    """Return a processor that does not add the start of a word to a text, so that it can segment pieces."""
    copy = ModelProto.FromString(model.SerializeToString())
    copy.normalizer_spec.add_dummy_prefix = copy.normalizer_spec.remove_extra_whitespaces = False
    return spm.SentencePieceProcessor(model_proto=copy.SerializeToString())
