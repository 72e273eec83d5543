"""Extended vocabularies, and the spelling of the pieces of one tokenizer by another."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.pairs.tokenizer_training import TokenizerTrainer
from heed.data.pairs.vocabulary import describe_change, extend, fixed_options, spell
from heed.data.text.source import Sentences, WordCounts
from heed.symbols import BOS, EOS, PAD, UNK, WORD_START
from tests.data.texts import TOKENIZER

CORPUS = Path(__file__).parents[3] / "data" / "synthetic"
ADDED = Sentences(
    [
        f"{subject} {verb} {number}."
        for number in range(40)
        for subject in ("кошка", "собака")
        for verb in ("спит", "ест")
    ],
    [
        f"{subject} {verb} {number}."
        for number in range(40)
        for subject in ("ネコ", "イヌ")
        for verb in ("寝る", "食べる")
    ],
)
KINDS: dict[str, dict[str, Any]] = {
    "bpe": {}, "bpe without bytes": {"byte_fallback": False}, "unigram": {"kind": "unigram"},
    "char": {"kind": "char", "byte_fallback": False}, "word": {"kind": "word", "byte_fallback": False},
}  # fmt: skip


def built_in(split: str, pairs: int | None = None) -> Sentences:
    with gzip.open(CORPUS / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:pairs]
    return Sentences([row["src"] for row in rows], [row["tgt"] for row in rows])


def learn(text: Sentences, **changes: Any) -> Tokenizer:
    trainer = TokenizerTrainer(**(TOKENIZER | changes))
    return Tokenizer(trainer.train_models(WordCounts.of(text), pairs=len(text)))


def extended(old: Tokenizer, text: Sentences, tags: tuple[str, ...] = ()) -> Tokenizer:
    new = learn(text, **fixed_options(old))
    return Tokenizer([extend(before, after, tags) for before, after in zip(old.models, new.models, strict=True)])


@pytest.mark.parametrize(("kind", "joint"), [("bpe", False), *((kind, True) for kind in KINDS)])
def test_old_text_keeps_its_ids_and_the_new_one_has_pieces(kind: str, joint: bool) -> None:
    old = learn(built_in("train", 600), **KINDS[kind], joint=joint)
    new = extended(old, ADDED)
    assert new.joint == joint
    for vocabulary, names in ((old.src_vocab, "src_pieces"), (old.tgt_vocab, "tgt_pieces")):
        assert getattr(new, names)(range(vocabulary)) == getattr(old, names)(range(vocabulary))
    for split in ("valid", "test"):
        text = built_in(split)
        assert new.encode_src(text.src) == old.encode_src(text.src)
        assert new.encode_tgt(text.tgt) == old.encode_tgt(text.tgt)

    assert new.decode_tgt(new.encode_tgt(ADDED.tgt)) == ADDED.tgt
    assert new.decode_src(new.encode_src(ADDED.src)) == ADDED.src
    assert not any(UNK in ids or any(map(new.processors[0].is_byte, ids)) for ids in new.encode_src(ADDED.src))


def test_every_added_piece_of_bpe_is_reached() -> None:
    old = learn(built_in("train", 300), vocab_size=320)
    text = built_in("train", 1_500)
    new = extended(old, text)
    assert new.src_vocab > 1.5 * old.src_vocab
    starts = [piece for piece in new.src_pieces(range(old.src_vocab, new.src_vocab)) if piece.startswith(WORD_START)]
    assert len(starts) > 100
    for piece, ids in zip(starts, new.encode_src([piece[1:] for piece in starts]), strict=True):
        assert new.src_pieces(ids) == [piece]
    tokens, before, fresh = (sum(map(len, t.encode_src(text.src))) for t in (new, old, learn(text)))
    assert tokens < 1.05 * fresh < before


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_spelled_as_the_old_tokenizer_segments_their_text(kind: str) -> None:
    old = learn(built_in("train", 500), **KINDS[kind])
    text = built_in("train", 800)
    new = learn(Sentences(text.src + ADDED.src, text.tgt + ADDED.tgt), **KINDS[kind])
    source, target = spell(new, old)
    assert source == target
    assert [list(source[id_]) for id_ in (PAD, UNK, BOS, EOS)] == [[PAD], [UNK], [BOS], [EOS]]
    known = dict(zip(old.src_pieces(range(old.src_vocab)), range(old.src_vocab), strict=True))
    for piece, ids in zip(new.src_pieces(range(EOS + 1, new.src_vocab)), source[EOS + 1 :], strict=True):
        if piece in known:
            assert ids == [known[piece]]
        elif piece.startswith(WORD_START) and len(piece) > 1:
            (expected,) = old.encode_src([piece[1:]], tagged=False)
            assert ids == [id_ for id_ in expected if id_ != UNK]
        elif ids and not any(map(old.processors[0].is_byte, ids)) and set(piece) <= set("".join(known)):
            assert "".join(old.src_pieces(ids)) == piece
    if kind == "char":
        assert source[new.processors[0].piece_to_id("ネ")] == []


def test_an_extension_has_the_tags_that_the_old_tokenizer_lacks() -> None:
    old = learn(built_in("train", 300))
    new = extended(old, ADDED, ("<2de>", "<2ja>"))
    assert new.tags == ("<2de>", "<2ja>")
    assert new.language_tags["<2de>"] == old.src_vocab
    assert new.towards("ja").encode_src(["кошка"])[0][0] == new.language_tags["<2ja>"]
    assert new.language_tags["<2de>"] not in new.encode_tgt(["<2de>"])[0]
    assert spell(new, old)[0][old.src_vocab] == []
    again = extended(new, ADDED, ("<2ja>", "<2fr>"))
    assert (again.tags, again.tgt_vocab) == (("<2de>", "<2ja>", "<2fr>"), new.tgt_vocab + 1)


def test_the_change_is_counted() -> None:
    old = learn(Sentences(["a b", "ab"] * 9, ["a b", "ab"] * 9), vocab_size="auto", byte_fallback=False)
    new = extended(old, Sentences(["x"] * 9, ["x"] * 9))
    said = describe_change(new, old, spell(new, old), Sentences(["a b x"], ["b"]))
    # Of ▁a ▁b ▁ <unk> and ▁b, x becomes known.
    assert "0 have the mean of several, 1 are new; 40% of the 5 tokens of the validation set change" in said
