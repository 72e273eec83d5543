"""Terms: which ones a sentence has, and searches that put them into its translation."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.decoding.constraints import Constraint, Vocabulary
from heed.errors import HeedError
from heed.inference.constraints import Term, Terms, Writing
from heed.symbols import EOS
from tests.decoding.test_constraints import ranked, search
from tests.decoding.test_search import TableModel, assert_same, batch_of, log_p

PIECES = [b"", b"\xff", b"", b"", "▁a".encode(), b"b", b"a", "▁".encode(), b"."]
VOCAB = len(PIECES)
LIMIT = 5
SOURCES = [[4, EOS], [5, EOS]]


def encode(text: str) -> list[int]:
    """The longest pieces, from left to right; UNK if they cannot write a text."""
    return Writing(encode, Vocabulary(PIECES)).spell(f"▁{text}".replace(" ", "▁").encode()) or [1]


WRITING = Writing(encode, Vocabulary(PIECES))
targets = st.lists(st.sampled_from(["a", "b", "ab", "ba", "a b"]), min_size=1, max_size=2, unique=True)


def text_of(pieces: list[int]) -> str:
    return b"".join(PIECES[piece] for piece in pieces if piece != 1).decode().replace("▁", " ")


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
    constraint = WRITING.constraint([Term("x", tuple(each)) for each in words])
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
    constraint = WRITING.constraint([Term("x", tuple(each)) for each in words])
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
    from heed.decoding import BeamSearch

    constraint = WRITING.constraint([Term("x", tuple(each)) for each in words])
    narrow = BeamSearch(beam=beam, length_penalty=0.6, n_best=beam, max_length_factor=2.0, max_length_extra=3)
    found, free = narrow(TableModel(seed, vocab=VOCAB), *batch_of(SOURCES), [[constraint], []])
    assert all(has(each.tokens, own) for each in found for own in words)
    assert_same(free, narrow(TableModel(seed, vocab=VOCAB), *batch_of(SOURCES[1:]))[0])


def test_terms_of_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("house\tHaus|Hauses\nWhite House\tWeißes Haus\n\nUS\tUSA\nC++\tC++\n机器\tMaschine\n", encoding="utf-8")
    terms = Terms.read(file)

    def sources(sentence: str) -> list[str]:
        return [term.source for term in terms.of(sentence)]

    assert sources("The House of houses, a house.") == ["house"]
    assert sources("He told us of the White House and of the white house.") == ["White House", "house"]
    assert sources("The US-based C++ house-boat") == ["C++"]
    assert sources("这台机器很好") == ["机器"]
    assert terms.of("house")[0].targets == ("Haus", "Hauses")


@pytest.mark.parametrize("line", ["house", "house\t", "\tHaus", "house\t|"])
def test_a_line_that_is_no_term_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "terms.tsv").write_text(f"a\tb\n{line}\n")
    with pytest.raises(HeedError, match=r"terms.tsv, line 2 is no term: give the source words, a tab"):
        Terms.read(tmp_path / "terms.tsv")
