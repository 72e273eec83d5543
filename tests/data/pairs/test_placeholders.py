"""Placeholders in training text: which words they stand for, in which pairs, and for which texts."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.cache import cache_key
from heed.characters import MAY_BE_PROTECTED, PROTECTED
from heed.data.pairs import pairs
from heed.data.pairs.augmentation import BPEDropout
from heed.data.pairs.pairs import encode
from heed.data.pairs.placeholders import MASKING_REVISION, MIN_PAIRS, MOST, ONE_IN, shared, with_placeholders
from heed.data.text.noise import Noise, add_noise
from heed.data.text.source import Sentences, pair_digests
from heed.errors import HeedError
from heed.symbols import PLACEHOLDERS
from tests.data.texts import (
    TOKENIZER,
    TokenizerTrainer,
    numbered_dogs,
    sentence_pairs,
    toy_language,
    train_tokenizer,
    training_text,
)

ANY = re.compile(f"[{''.join(PLACEHOLDERS)}]")


@pytest.mark.parametrize(
    ("src", "tgt", "spans", "words"),
    [
        ("Tom saw Mary.", "Tom sah Maria.", [], ["Tom"]),
        ("Tom, (Tom) has 3 dogs", "Tom hat 3 Hunde", [], ["3"]),
        ("the man", "the man", [], []),
        ("Tom{name} {0}, %1$s", "{0} {name}Tom: %2$s", ["{name}", "{0}"], ["Tom"]),
        ("B12 <br>user_id", "B12<br> user_id B12", ["<br>", "user_id"], []),
        ("In 12:30 or 3.5%?", "Um 12:30, 3,5%!", [], ["12:30"]),
    ],
)
def test_names_and_numbers_that_occur_once_on_both_sides_are_shared(
    src: str, tgt: str, spans: list[str], words: list[str]
) -> None:
    assert shared(src, tgt) == (spans, words)


words = st.sampled_from(["Tom", "Mary", "12", "3.5", "dog", "Hund", "ran,", "(Paul)", "{x}", "B12!"])
sentences = st.lists(words, max_size=9).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=9), st.integers(0, 2**63))
def test_both_sides_have_the_same_placeholders_as_a_function_of_the_pair(
    pairs: list[tuple[str, str]], digest: int
) -> None:
    block = Sentences(*map(list, zip(*pairs, strict=True)))
    digests = np.array([digest + row for row in range(len(block))], np.uint64)
    found = with_placeholders(block, digests)
    for row, (src, tgt) in enumerate(pairs):
        alone = with_placeholders(Sentences([src], [tgt]), digests[row : row + 1])
        assert (alone.src[0], alone.tgt[0]) == (found.src[row], found.tgt[row])
        spans, words = shared(src, tgt)
        replaced = [
            *(spans if (digest + row) % ONE_IN != 1 else []),
            *(words[:MOST] if (digest + row) % ONE_IN == 0 else []),
        ]
        added = [Counter(ANY.findall(after)) - Counter(ANY.findall(before)) for before, after in
                 ((src, found.src[row]), (tgt, found.tgt[row]))]  # fmt: skip
        assert added[0] == added[1]
        assert added[0].total() == len(replaced)
        assert len(found.src[row].split()) == len(src.split())


def test_a_third_of_the_pairs_with_shared_words_has_placeholders_and_uses_all_of_them() -> None:
    block = toy_language(9_000)
    found = with_placeholders(block, pair_digests(block))
    changed = [src for src, before in zip(found.src, block.src, strict=True) if src != before]
    assert len(changed) == pytest.approx(len(block) / ONE_IN, rel=0.1)
    assert {*"".join(changed)} >= {*PLACEHOLDERS}


def test_a_text_has_placeholders_if_enough_pairs_share_words(tmp_path: Path) -> None:
    few, many = numbered_dogs(MIN_PAIRS - 1), numbered_dogs(MIN_PAIRS)
    plain = train_tokenizer(few, tmp_path)
    assert train_tokenizer(few, tmp_path, placeholders=True).digest == plain.digest
    tokenizer = train_tokenizer(many, tmp_path, placeholders=True)
    assert len(tokenizer.placeholders) == len(PLACEHOLDERS)
    assert tokenizer.src_vocab == train_tokenizer(many, tmp_path).src_vocab + len(PLACEHOLDERS)
    text = training_text(many, tmp_path)
    stored = encode(text, tokenizer).read(np.arange(len(many)))
    written = {
        *zip(tokenizer.decode_src(stored.src.to_pylist()), tokenizer.decode_tgt(stored.tgt.to_pylist()), strict=True)
    }
    masked = with_placeholders(many, pair_digests(many))
    assert written == {*zip(masked.src, masked.tgt, strict=True)}
    assert written & {*sentence_pairs(many)}


def test_encoded_pairs_of_another_rule_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = numbered_dogs(MIN_PAIRS)
    text, folders = training_text(many, tmp_path), []
    for placeholders, revision in ((True, 1), (True, 2), (False, 1), (False, 2)):
        monkeypatch.setattr(pairs, "MASKING_REVISION", revision)
        folders.append(encode(text, train_tokenizer(many, tmp_path, placeholders=placeholders)).folder)
    assert folders[0] != folders[1]
    assert folders[2] == folders[3]


def test_a_change_of_the_rule_has_a_new_revision() -> None:
    """If this fails, raise `MASKING_REVISION`, and write what the rule gives now."""
    src = ["Tom has {n} dogs.<br>Mary", "a{b}c", "12 B12, %s 🇩🇪", "<b>one</b> 3.5 Anna", "http://x.y &amp;"] * 40
    found = with_placeholders(Sentences(src, src), np.arange(200, dtype=np.uint64) * np.uint64(7))
    assert (MASKING_REVISION, cache_key(found.src, found.tgt)) == (1, "629e5c3abb016c99")


def test_auto_learns_placeholders_from_spans_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def of(token: str) -> Sentences:
        sentences = [f"the dog saw {token.format(number)} in the house" for number in range(MIN_PAIRS)]
        return Sentences(sentences, sentences)

    assert not train_tokenizer(of("Tom {}"), tmp_path / "names", placeholders="auto").placeholders
    assert "Placeholders" not in "".join(capsys.readouterr())
    tokenizer = train_tokenizer(of("{{n{}}}"), tmp_path / "spans", placeholders="auto")
    assert len(tokenizer.placeholders) == len(PLACEHOLDERS)
    assert f"Placeholders are learned: {MIN_PAIRS} pairs share protected text." in "".join(capsys.readouterr())


PARTS = st.sampled_from(
    [
        "dog ",
        "<b",
        ">",
        "&amp;",
        "{a}",
        "$",
        "%s",
        "%(n)d",
        "www.x",
        "://y",
        "a@b.c",
        "B12",
        "x_y",
        "🇩",
        "🇪",
        "☃",
        "\ue000",
    ]
)


@given(st.lists(PARTS, max_size=9).map("".join))
def test_what_may_be_protected_is_found_first(string: str) -> None:
    assert MAY_BE_PROTECTED.search(string) or not PROTECTED.search(string)


def test_words_have_no_placeholders() -> None:
    with pytest.raises(HeedError, match=r"tokenizer\.placeholders=true is for subwords"):
        TokenizerTrainer(**(TOKENIZER | {"kind": "word", "byte_fallback": False, "placeholders": True}))


def test_dropout_and_noise_keep_placeholders(tmp_path: Path) -> None:
    block = toy_language(300)
    tokenizer = train_tokenizer(block, tmp_path, placeholders=True)
    masked = with_placeholders(block, np.zeros(len(block), np.uint64))
    pairs = encode(training_text(block, tmp_path), tokenizer).read(np.arange(len(block)))
    assert (
        BPEDropout(tokenizer.processors[0], rate=0.0)(pairs.src, pairs.rows, seed="1").to_pylist()
        == pairs.src.to_pylist()
    )
    for rate in (0.3, 0.9):
        dropped = BPEDropout(tokenizer.processors[0], rate=rate)(pairs.src, pairs.rows, seed="1").to_pylist()
        assert tokenizer.decode_src(dropped) == tokenizer.decode_src(pairs.src.to_pylist())
    noisy = add_noise(Noise(typos=1.0, punctuation=1.0), masked.src, [*range(len(block))], seed="1")
    assert [ANY.findall(each) for each in noisy] == [ANY.findall(each) for each in masked.src]
