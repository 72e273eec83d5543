"""Searches with constraints against exhaustive search over all translations that fulfil them."""

from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heed.decoding import BeamSearch, GreedySearch, Hypothesis, SampleSearch
from heed.decoding.constraints import Constraint, NoRepeatedNGrams, Prefix, PrefixText, Vocabulary
from heed.decoding.search import Search
from heed.errors import HeedError
from heed.symbols import EOS
from tests.decoding.test_search import TableModel, assert_same, batch_of, log_p

PIECES = [b"", b"\xff", b"", b"", b"\xfea", b"b", b"ba", b"\xfe", b"a"]
"""Of ids 0 to 8: special symbols without text, UNK, and pieces of which one is the beginning of another."""
VOCAB = len(PIECES)
VOCABULARY = Vocabulary(PIECES)
SOURCES = [[4, EOS], [5, EOS], [7, EOS]]
LIMIT = 4  # twice the length of a source
texts = st.lists(st.sampled_from([4, 5, 6, 7, 8]), min_size=1, max_size=3).map(
    lambda ids: b"".join(PIECES[piece] for piece in ids)
)


def search(kind: str, n: int = 1, *, ngram: int = 0, extra: int = 0) -> Search:
    limits = {"max_length_factor": 2.0, "max_length_extra": extra, "no_repeat_ngram_size": ngram}
    if kind == "greedy":
        return GreedySearch(**limits)
    if kind == "sample":
        return SampleSearch(temperature=1.0, top_k=None, top_p=None, seed=3, n_best=n, **limits)
    return BeamSearch(beam=700, length_penalty=0.6, n_best=n, **limits)


def prefix(text: bytes) -> Prefix:
    return Prefix(PrefixText(VOCABULARY, text))


def begins_with(pieces: Sequence[int], text: bytes) -> bool:
    """Whether pieces before EOS or the limit begin with a text, and leave room for EOS.

    A text that ends with a space may also be the whole translation, without the space.
    """
    if text.endswith(b"\xfe") and pieces[-1] == EOS and b"".join(PIECES[piece] for piece in pieces) == text[:-1]:
        return True
    return b"".join(PIECES[piece] for piece in pieces if piece != EOS)[: len(text)] == text and b"".join(
        PIECES[piece] for piece in pieces[: LIMIT - 1] if piece != EOS
    ).startswith(text)


def repeats(pieces: Sequence[int], size: int) -> bool:
    """Whether the last n-gram of ``pieces`` is there before."""
    last = len(pieces) - size
    return any(pieces[place : place + size] == pieces[last:] for place in range(last))


def possible(text: bytes, ngram: int) -> list[list[int]]:
    """All sequences up to the limit that begin with a text; finished ones end with EOS.

    They repeat an n-gram only where the text leaves no other piece.
    """
    words = [1, *range(4, VOCAB)]
    every = [[*ids, EOS] for length in range(LIMIT) for ids in product(words, repeat=length)]
    every += [list(ids) for ids in product(words, repeat=LIMIT)]
    every = [ids for ids in every if begins_with(ids, text)]
    for length in range(ngram + 1, LIMIT + 1) if ngram else ():
        repeating = [ids for ids in every if len(ids) >= length and repeats(ids[:length], ngram)]
        begun = {tuple(ids[: length - 1]) for ids in every if len(ids) >= length and ids not in repeating}
        every = [ids for ids in every if ids not in repeating or tuple(ids[: length - 1]) not in begun]
    return every


def ranked(model: TableModel, source: list[int], sequences: list[list[int]]) -> list[Hypothesis]:
    hypotheses = []
    for ids in sequences:
        log_prob, ends = log_p(model, source, ids), ids[-1] == EOS
        score = log_prob / ((5 + len(ids)) / 6) ** 0.6
        hypotheses.append(Hypothesis(ids[:-1] if ends else ids, log_prob, score, ends))
    return sorted(hypotheses, key=lambda each: (not each.finished, -each.score))


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), text=texts, ngram=st.sampled_from([0, 1, 2]))
def test_a_wide_beam_finds_the_best_translations_that_fulfil_all(seed: int, text: bytes, ngram: int) -> None:
    model, allowed = TableModel(seed, vocab=VOCAB), possible(text, ngram)
    assume(len(allowed) > 5)
    constraints: list[Sequence[Constraint]] = [[], [prefix(text)], []]
    found = search("beam", 5, ngram=ngram)(model, *batch_of(SOURCES), constraints)
    assert_same(found[1], ranked(model, SOURCES[1], allowed)[:5])
    others = search("beam", 5, ngram=ngram)(model, *batch_of([SOURCES[0], SOURCES[2]]))
    assert_same(found[0], others[0])
    assert_same(found[2], others[1])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), text=texts, ngram=st.sampled_from([0, 2]))
def test_greedy_search_and_samples_choose_among_what_can_still_be_fulfilled(seed: int, text: bytes, ngram: int) -> None:
    model, allowed = TableModel(seed, vocab=VOCAB, spread=3.0), possible(text, ngram)
    assume(allowed)
    constraints: list[Sequence[Constraint]] = [[prefix(text)]] * len(SOURCES)
    for source, (found,) in zip(
        SOURCES, search("greedy", ngram=ngram)(model, *batch_of(SOURCES), constraints), strict=True
    ):
        chosen: list[int] = []
        while len(chosen) < LIMIT and EOS not in chosen:
            following = {ids[len(chosen)] for ids in allowed if ids[: len(chosen)] == chosen}
            chosen.append(max(sorted(following), key=lambda piece: log_p(model, source, [*chosen, piece])))
        tokens = [*found.tokens, EOS] if found.finished else found.tokens
        assert tokens == chosen
        assert found.log_prob == pytest.approx(log_p(model, source, tokens), abs=1e-9)
    for source, samples in zip(
        SOURCES, search("sample", 4, ngram=ngram)(model, *batch_of(SOURCES), constraints), strict=True
    ):
        for sample in samples:
            tokens = [*sample.tokens, EOS] if sample.finished else sample.tokens
            assert tokens in allowed
            assert sample.log_prob == pytest.approx(log_p(model, source, tokens), abs=1e-9)


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_without_constraints_a_search_makes_the_same_calls(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TableModel(1, vocab=VOCAB)
    plain = count_calls(lambda: search(kind)(model, *batch_of(SOURCES)))
    empty = count_calls(lambda: search(kind)(model, *batch_of(SOURCES), [(), (), ()]))
    assert plain == empty


def count_calls(run) -> int:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    with Counter() as counter:
        run()
    return counter.calls


def test_a_model_that_is_too_short_for_a_prefix_says_so() -> None:
    model = TableModel(1, vocab=VOCAB)
    model.max_target_length = 3
    with pytest.raises(HeedError, match="need 4 subwords, and the model writes at most 3"):
        search("greedy")(model, *batch_of(SOURCES[:1]), [[prefix(b"bbb")]])


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_a_complete_last_word_may_end_the_translation_also_at_the_limit(kind: str) -> None:
    found = set()
    for seed in range(40):
        model = TableModel(seed, vocab=VOCAB)
        model.max_target_length = 4
        ((each, *_),) = search(kind)(model, *batch_of(SOURCES[:1]), [[prefix(b"bbb\xfe")]])
        assert each.finished
        found.add(tuple(each.tokens))
    assert found == {(5, 5, 5)}


def test_a_longer_prefix_raises_the_limit_of_its_sentence() -> None:
    found = search("greedy", extra=30)(TableModel(1, vocab=VOCAB), *batch_of(SOURCES[:1]), [[prefix(b"b" * 40)]])
    assert b"".join(PIECES[piece] for piece in found[0][0].tokens).startswith(b"b" * 40)
    assert found[0][0].finished


def test_a_constraint_that_leaves_nothing_to_a_more_important_one_is_not_applied() -> None:
    ngrams = [NoRepeatedNGrams(1, (5,))]
    found = search("greedy")(TableModel(1, vocab=VOCAB), *batch_of(SOURCES[:1]), [[prefix(b"bb"), *ngrams]])
    assert found[0][0].tokens[:2] in ([5, 5], [5, 6])


def test_agreeing_pieces_go_as_far_as_both_go() -> None:
    assert sorted(VOCABULARY.agreeing(b"b")) == [5, 6]
    assert sorted(VOCABULARY.agreeing(b"bab")) == [5, 6]
    assert sorted(VOCABULARY.agreeing(b"\xfe")) == [4, 7]
    assert sorted(VOCABULARY.agreeing(b"\xfeb")) == [7]
    assert torch.equal(prefix(b"b").forbidden(9, VOCAB), torch.tensor([piece not in (5, 6) for piece in range(VOCAB)]))
