"""Terms: which ones a sentence has, and searches that put them into its translation."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import BeamSearch
from heed.decoding.constraints import Constraint, Vocabulary
from heed.errors import HeedError
from heed.inference.constraints import Term, Terms, Writing
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS
from tests.decoding.test_constraints import ranked, search
from tests.decoding.test_search import TableModel, assert_same, batch_of, log_p
from tests.tokenizers import train_tokenizer

PIECES = [b"", b"\xff", b"", b"", b"\xfea", b"b", b"a", b"\xfe", b"."]
VOCAB = len(PIECES)
LIMIT = 5
SOURCES = [[4, EOS], [5, EOS]]


def encode(text: str) -> list[int]:
    """The longest pieces, from left to right; UNK if they cannot write a text."""
    return Writing(encode, Vocabulary(PIECES)).spell(f" {text}".encode().replace(b" ", b"\xfe")) or [1]


WRITING = Writing(encode, Vocabulary(PIECES))
targets = st.lists(st.sampled_from(["a", "b", "ab", "ba", "a b"]), min_size=1, max_size=2, unique=True)


def text_of(pieces: list[int]) -> str:
    return b"".join(PIECES[piece] for piece in pieces if piece != 1).replace(b"\xfe", b" ").decode()


def has(pieces: list[int], words: list[str]) -> bool:
    return any(re.search(rf"(?<![ab]){word}(?![ab])", text_of(pieces)) for word in words)


def allowed(constraint: Constraint | None, limit: int, chosen: tuple[int, ...] = ()) -> Iterator[list[int]]:
    """Every sequence that a constraint allows, piece by piece."""
    if chosen[-1:] == (EOS,) or len(chosen) == limit:
        yield [*chosen]
        return
    mask = constraint and constraint.forbidden(limit - len(chosen) - 2, VOCAB)
    following = [piece for piece in (EOS, *range(4, VOCAB)) if mask is None or not mask[piece]]
    following = [piece for piece in following if piece != EOS or not (constraint and constraint.needs)]
    assert following, f"{chosen} cannot be continued"
    for piece in following:
        yield from allowed(constraint and constraint.after(piece), limit, (*chosen, piece))


@settings(max_examples=30, deadline=None)
@given(words=st.lists(targets, min_size=1, max_size=2))
def test_what_a_constraint_allows_has_all_terms_and_nothing_else_is_forbidden_while_there_is_room(
    words: list[list[str]],
) -> None:
    (constraint,) = WRITING.terms([Term("x", tuple(each)) for each in words])
    limit = min(LIMIT, constraint.needs + 2)
    found = [tuple(ids) for ids in allowed(constraint, max(limit, constraint.needs + 1))]
    assert all(has([*ids], each) for ids in found for each in words)
    whole = {tuple(ids) for ids in allowed(None, limit) if ids[-1] == EOS and all(has(ids, each) for each in words)}
    room = sum(max(target.most for target in targets) for targets in constraint.unmet)
    assert {ids for ids in whole if len(ids) + room < limit} <= set(found)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), words=st.lists(targets, min_size=1, max_size=2))
def test_searches_find_the_best_of_what_is_allowed(seed: int, words: list[list[str]]) -> None:
    model = TableModel(seed, vocab=VOCAB)
    (constraint,) = WRITING.terms([Term("x", tuple(each)) for each in words])
    limit = max(4, constraint.needs + 1)
    possible = list(allowed(constraint, limit))
    constraints: list[list[Constraint]] = [[constraint], []]
    found = search("beam", 3)(model, *batch_of(SOURCES), constraints)
    best = [each for each in ranked(model, SOURCES[0], possible) if 1 not in each.tokens]
    assert_same([each for each in found[0] if 1 not in each.tokens][:1], best[:1])
    assert_same(found[1], search("beam", 3)(model, *batch_of(SOURCES[1:]))[0])
    for kind in ("greedy", "sample"):
        ((one, *_), _) = search(kind)(model, *batch_of(SOURCES), constraints)
        tokens = [*one.tokens, EOS] if one.finished else one.tokens
        assert all(has(tokens, each) for each in words)
        assert one.log_prob == pytest.approx(log_p(model, SOURCES[0], tokens), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), words=st.lists(targets, min_size=1, max_size=3), beam=st.integers(1, 6))
def test_a_narrow_beam_has_all_terms(seed: int, words: list[list[str]], beam: int) -> None:
    (constraint,) = WRITING.terms([Term("x", tuple(each)) for each in words])
    narrow = BeamSearch(beam=beam, length_penalty=0.6, n_best=beam, max_length_factor=2.0, max_length_extra=3)
    found, free = narrow(TableModel(seed, vocab=VOCAB), *batch_of(SOURCES), [[constraint], []])
    assert all(has(each.tokens, own) for each in found for own in words)
    assert_same(free, narrow(TableModel(seed, vocab=VOCAB), *batch_of(SOURCES[1:]))[0])


def test_terms_of_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text(
        "house\tHaus|Hauses\nWhite House\tWeißes Haus\n\nUS\tUSA\nC++\tC++\n机器\tMaschine\n", encoding="utf-8"
    )
    terms = Terms.read(file)

    def sources(sentence: str) -> list[str]:
        return [term.source for term in terms.in_sentence(sentence)]

    assert sources("The House of houses, a house.") == ["house"]
    assert sources("He told us of the White House and of the white house.") == ["White House", "house"]
    assert sources("The US-based C++ house-boat") == ["C++"]
    assert sources("这台机器很好") == ["机器"]
    assert terms.in_sentence("house")[0].targets == ("Haus", "Hauses")


@pytest.mark.parametrize("line", ["house", "house\t", "\tHaus", "house\t|"])
def test_a_line_that_is_no_term_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "terms.tsv").write_text(f"a\tb\n{line}\n")
    with pytest.raises(HeedError, match=r"terms.tsv, line 2 is no term: give the source words, a tab"):
        Terms.read(tmp_path / "terms.tsv")


# ---- the translator

LINES = ["the man rides a bike .", "the dog sleeps .", "a woman reads 3 books .", "42", "", "children play ."]
TEXTS = ["der Mann fährt Rad .", "der Hund schläft .", "eine Frau liest 3 Bücher .", "Kinder spielen ."]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*LINES, *TEXTS], vocab_size=330, joint=True, byte_fallback=True)


@pytest.fixture(params=["transformer", "rnn"])
def translator(request: pytest.FixtureRequest, tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> Translator:
    torch.manual_seed(3)
    model = tiny_model(request.param, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    return Translator(model, tokenizer, src_lang="en", tgt_lang="de", batch_tokens=20)


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True}, {"mbr": True, "samples": 3}], ids=str)
@pytest.mark.parametrize("prefix", ["der", "der ", "Mannsc", "»3 €", "  eine\tF"])
def test_every_translation_begins_with_its_prefix(translator: Translator, prefix: str, options: dict[str, Any]) -> None:
    found = translator.translate(LINES, prefix=prefix, **options)
    for line, text in zip(LINES, found, strict=True):
        begin = " ".join(prefix.split()) + " " * prefix[-1].isspace()
        assert text.startswith(begin.rstrip()) if line else text == ""
        assert not line or prefix[-1] != " " or not text[len(begin.rstrip()) :][:1].strip()


def test_what_the_vocabulary_lacks_of_a_prefix_is_restored(tiny_model: Callable[..., Seq2Seq]) -> None:
    tokenizer = train_tokenizer([*LINES, *TEXTS], vocab_size=90, joint=True)
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    for text in Translator(model, tokenizer).translate(LINES[:3], prefix="»Ωß der ï"):
        assert text.startswith("»Ωß der ï")


@pytest.mark.parametrize(
    ("options", "lacking"), [({}, "Ω, z, ß"), ({"model_type": "word", "hard_vocab_limit": False}, "ΩKatzeß")]
)
def test_a_term_that_the_vocabulary_cannot_write_is_refused(
    options: dict[str, Any], lacking: str, tiny_model: Callable[..., Seq2Seq]
) -> None:
    tokenizer = train_tokenizer([*LINES, *TEXTS], vocab_size=40 if options else 90, joint=True, **options)
    model = tiny_model("rnn", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    with pytest.raises(HeedError, match=rf"the term ΩKatzeß: its vocabulary lacks {lacking}\.$"):
        Translator(model, tokenizer).translate(LINES, terms={"dog": "ΩKatzeß"})


def test_each_sentence_has_its_own_prefix_and_empty_ones_change_nothing(translator: Translator) -> None:
    prefixes = ["", "Kinder", "", "42 a", "", "b"]
    found, free = translator.translate(LINES, prefix=prefixes), translator.translate(LINES)
    assert all(text.startswith(prefix) for text, prefix in zip(found, prefixes, strict=True))
    assert [found[row] for row in (0, 2, 4)] == [free[row] for row in (0, 2, 4)]
    with pytest.raises(HeedError, match="Line 6 has no prefix"):
        translator.translate(LINES, prefix=prefixes[:-1])
    assert translator.translate(LINES, prefix="") == free


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True}, {"no_repeat_ngram_size": 1}], ids=str)
def test_log_p_is_the_models_own(translator: Translator, options: dict[str, Any]) -> None:
    writing, sources = Writing.of(translator.tokenizer), translator.encode(LINES[:3])
    terms = Terms.of({"dog": "Kinder", "bike": ["Rad", "Hund"]})
    constraints = [[*writing.prefix("der H"), *writing.terms(terms.in_sentence(line))] for line in LINES[:3]]
    search = translator.changed_search(2, **options) if "beam" not in options else translator.changed_search(**options)
    found = translator.translate_ids(sources, search=search, constraints=constraints)
    for source, n_best in zip(sources, found, strict=True):
        for each in n_best:
            target = [*each.tokens, *[EOS] * each.finished]
            assert translator.score_ids([[*source, EOS]], [target]) == [pytest.approx(each.log_prob, abs=1e-6)]


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True}], ids=str)
def test_each_term_is_in_the_translation(translator: Translator, options: dict[str, Any]) -> None:
    terms = {"dog": "Katze", "man": ["Herr", "herrn"], "a woman": "Damen", "rides": "fährt los"}
    found = translator.translate(LINES, terms=terms, **options)
    assert re.search(r"\b(Herr|[hH]errn)\b", found[0])
    assert re.search(r"\bfährt los\b", found[0])
    assert re.search(r"\bKatze\b", found[1])
    assert re.search(r"\bDamen\b", found[2])
    assert found[5] == translator.translate(LINES, **options)[5]


def test_no_piece_may_stand_inside_a_term(tokenizer: Tokenizer) -> None:
    """Not even a byte that no text has, which is read as U+FFFD."""
    (term,) = Writing.of(tokenizer).terms([Term("dog", ("xqz",))])
    letters = [tokenizer.encode_tgt([each])[0][-1] for each in "xqz"]
    for inside in range(4, tokenizer.tgt_vocab):
        left: Constraint | None = term
        for piece in (*letters[:2], inside, letters[2], EOS):
            left = left and left.after(piece)
        is_met = left is None or not left.needs
        (text,) = tokenizer.decode_tgt([[*letters[:2], inside, letters[2]]])
        assert is_met == (text == "xqz"), tokenizer.tgt_pieces([inside])


def test_no_sequence_occurs_twice(translator: Translator) -> None:
    for size in (1, 2, 3):
        for (each,) in translator.translate_ids(
            translator.encode(LINES[:3]), search=translator.changed_search(no_repeat_ngram_size=size)
        ):
            grams = [tuple(each.tokens[place : place + size]) for place in range(len(each.tokens) - size + 1)]
            assert len(set(grams)) == len(grams)


def test_maps_of_a_translation_with_a_prefix(translator: Translator) -> None:
    (pair,) = translator.attend("the dog sleeps .", prefix="Kinder")
    assert pair.target.startswith("Kinder")
