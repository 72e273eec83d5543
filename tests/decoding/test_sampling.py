"""Draws against the distribution they are drawn from, against greedy search, and against their own batches."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Bool, Int
from torch import Tensor, nn

from heed.decoding import GreedySearch, Hypothesis, SampleSearch
from heed.errors import HeedError
from heed.models.seq2seq import DecoderOutput, DecoderState, Memory, Seq2Seq
from heed.symbols import BOS, EOS, PAD
from tests.decoding.test_search import batch_of

VOCAB = 7
WORDS = [token for token in range(VOCAB) if token not in (PAD, BOS, EOS)]


@dataclass(frozen=True)
class Bigrams(DecoderState):
    source: Int[Tensor, " R"]

    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None = None) -> "Bigrams":
        return Bigrams(self.source[rows])


class BigramModel(Seq2Seq):
    """p(next | first source token, last target token): logits "V V V" read from a table."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        return Memory(src[..., None].double(), src_mask)

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        return DecoderOutput(self.logits[memory.states[:, :1, 0].long(), tgt_in])

    def start(self, memory: Memory) -> Bigrams:
        return Bigrams(memory.states[:, 0, 0].long())

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, Bigrams]:
        assert isinstance(state, Bigrams)
        return DecoderOutput(self.logits[state.source, tokens][:, None]), state


def bigram_model(seed: int, *, spread: float = 1.0) -> BigramModel:
    generator = torch.Generator().manual_seed(seed)
    return BigramModel(spread * torch.randn(VOCAB, VOCAB, VOCAB, generator=generator, dtype=torch.float64))


def sampler(**changes: Any) -> SampleSearch:
    plain: dict[str, Any] = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1, "n_best": 1}
    return SampleSearch(**{**plain, "max_length_factor": 1.0, "max_length_extra": 2, **changes})


def allowed(logits: Tensor, *, temperature: float, top_k: int | None, top_p: float | None) -> dict[int, float]:
    """By the book: what may be drawn after ``logits`` " V", and how likely."""
    weights = {token: math.exp(logits[token].item() / temperature) for token in [*WORDS, EOS]}
    likeliest = sorted(weights, key=lambda token: -weights[token])[:top_k]
    if top_p is not None:
        whole = sum(weights[token] for token in likeliest)
        sizes = (n for n in range(1, len(likeliest) + 1) if sum(weights[t] for t in likeliest[:n]) >= top_p * whole)
        likeliest = likeliest[: next(sizes, len(likeliest))]
    whole = sum(weights[token] for token in likeliest)
    return {token: weights[token] / whole for token in likeliest}


CUTS = [
    {"temperature": 1.0, "top_k": None, "top_p": None},
    {"temperature": 0.6, "top_k": None, "top_p": None},
    {"temperature": 2.0, "top_k": 3, "top_p": None},
    {"temperature": 1.0, "top_k": None, "top_p": 0.7},
    {"temperature": 1.5, "top_k": 4, "top_p": 0.8},
]


def assert_fits(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> None:
    """Pearson's chi-square at p = 0.001; what is impossible must not occur, what is rare is pooled."""
    draws = counts.total()
    assert counts.keys() <= {ids for ids, p in expected.items() if p > 0}
    cells = [(counts[ids], draws * p) for ids, p in expected.items() if draws * p >= 10]
    rare = (draws - sum(seen for seen, _ in cells), draws - sum(mean for _, mean in cells))
    cells += [rare] if rare[1] >= 10 else []
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    freedom = torch.tensor((len(cells) - 1) / 2, dtype=torch.float64)
    assert len(cells) > 1
    assert torch.special.gammaincc(freedom, torch.tensor(statistic / 2, dtype=torch.float64)) > 0.001


@pytest.mark.parametrize("cut", CUTS)
def test_translations_are_as_frequent_as_they_are_likely(cut: dict[str, float | None]) -> None:
    """Of all translations of at most two tokens: their frequencies in 4,000 draws, and their probabilities."""
    model = bigram_model(4)
    (found,) = sampler(**cut, n_best=4000, max_length_factor=0.0)(model, *batch_of([[5, EOS]]))
    counts = Counter((*h.tokens, EOS) if h.finished else tuple(h.tokens) for h in found)
    logits = model.logits[5].detach()
    first = allowed(logits[BOS], **cut)
    expected = {(EOS,): first.get(EOS, 0.0)}
    for word in set(first) - {EOS}:
        second = allowed(logits[word], **cut)
        expected |= {(word, token): first[word] * p for token, p in second.items()}
    assert sum(expected.values()) == pytest.approx(1)
    assert_fits(counts, expected)


def test_sentences_and_seeds_are_drawn_independently() -> None:
    """The first tokens of neighbouring sentences, and of two seeds: as pairs they are as frequent as products."""
    model = BigramModel(torch.zeros(VOCAB, VOCAB, VOCAB, dtype=torch.float64))
    sources = [[4, *middle, EOS] for middle in product((4, 5, 6), repeat=6)]
    drawn = [
        [n_best[0] for n_best in sampler(seed=s, max_length_factor=0.0)(model, *batch_of(sources))] for s in (1, 2)
    ]
    one, two = ([h.tokens[0] if h.tokens else EOS for h in run] for run in drawn)
    equally = dict.fromkeys(product([*WORDS, EOS], repeat=2), 1 / 25)
    assert len(equally) == 25
    assert_fits(Counter(zip(one, two, strict=True)), equally)
    assert_fits(Counter(zip(one[::2], one[1::2], strict=False)), equally)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.floats(0.05, 20),
    top_k=st.none() | st.integers(1, 9),
    top_p=st.none() | st.floats(0.01, 1),
    spread=st.floats(0.1, 5),
)
def test_shares_are_those_of_the_book(
    seed: int, temperature: float, top_k: int | None, top_p: float | None, spread: float
) -> None:
    logits = bigram_model(seed, spread=spread).logits[4].detach()
    shares = sampler(temperature=temperature, top_k=top_k, top_p=top_p).probabilities(logits)
    for row, given_logits in zip(shares / shares.sum(1, keepdim=True), logits, strict=True):
        expected = allowed(given_logits, temperature=temperature, top_k=top_k, top_p=top_p)
        assert {token for token, share in enumerate(row.tolist()) if share > 0} == set(expected)
        for token, share in expected.items():
            assert row[token].item() == pytest.approx(share, rel=1e-9)


def test_of_equally_likely_tokens_the_first_are_kept() -> None:
    logits = torch.zeros(1, VOCAB)
    first, second, *_ = sorted([*WORDS, EOS])
    assert sampler(top_k=2).probabilities(logits).nonzero()[:, 1].tolist() == [first, second]
    assert sampler(top_p=0.35).probabilities(logits).nonzero()[:, 1].tolist() == [first, second]


SOURCES = ([4, EOS], [5, 6, 4, 1, 5, 6, EOS], [1, 1, 4, EOS], [6, 6, EOS], [4, 5, 6, EOS])


def ids(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(h.tokens, h.finished) for h in n_best] for n_best in found]


@pytest.mark.parametrize("family", ["transformer", "rnn"])
@pytest.mark.parametrize("top_p", [None, 0.6])
def test_the_batch_has_no_part_in_the_draw(
    family: str, top_p: float | None, tiny_model: Callable[..., Seq2Seq]
) -> None:
    torch.manual_seed(5)
    model = tiny_model(family)
    with torch.no_grad():  # far enough from the uniform distribution to have something to say
        for parameter in model.parameters():
            parameter.mul_(2.5)
    search = sampler(n_best=2, top_p=top_p)
    alone = [ids(search(model, *batch_of([source])))[0] for source in SOURCES]
    assert len({str(n_best) for n_best in alone}) == len(SOURCES)
    for order in ([3, 1, 4, 0, 2], [2, 2, 4]):
        together = ids(search(model, *batch_of([SOURCES[row] for row in order])))
        assert together == [alone[row] for row in order]


def test_a_seed_is_a_draw() -> None:
    draws = [ids(sampler(seed=seed)(bigram_model(1), *batch_of(SOURCES))) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_more_draws_hold_the_fewer() -> None:
    one, four = (ids(sampler(n_best=n)(bigram_model(1), *batch_of(SOURCES))) for n in (1, 4))
    for (first,), all_of_them in zip(one, four, strict=True):
        assert first in all_of_them
    assert any(len({tuple(tokens) for tokens, _ in n_best}) > 1 for n_best in four)


def test_towards_zero_it_is_greedy_search() -> None:
    model = bigram_model(3)
    greedy = GreedySearch(max_length_factor=1.0, max_length_extra=2)(model, *batch_of(SOURCES))
    assert len({str(found) for found in greedy}) > 2
    for search in (sampler(temperature=1e-300), sampler(top_k=1), sampler(top_p=1e-12)):
        assert search(model, *batch_of(SOURCES)) == greedy


def test_scores_are_the_models_own_and_best_comes_first() -> None:
    model = bigram_model(2)
    found = sampler(n_best=4, temperature=3.0, top_k=3)(model, *batch_of(SOURCES))
    for source, n_best in zip(SOURCES, found, strict=True):
        for h in n_best:
            target = h.tokens + [EOS] * h.finished
            with torch.no_grad():
                log_probs = model(*batch_of([source]), torch.tensor([[BOS, *target[:-1]]])).log_softmax(2)[0]
            assert h.log_prob == h.score == pytest.approx(log_probs[range(len(target)), target].sum().item(), abs=1e-9)
        assert [h.score for h in n_best] == sorted((h.score for h in n_best), reverse=True)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_model_that_says_nothing_ends_the_sentence(value: float) -> None:
    model = BigramModel(torch.full((VOCAB, VOCAB, VOCAB), value))
    for cut in CUTS:
        ((found,),) = sampler(**cut)(model, *batch_of([[4, EOS]]))
        assert (found.tokens, found.finished) == ([], True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.1}, "top_p=1.1"),
        ({"seed": -1}, "seed=-1"),
        ({"n_best": 0}, "n_best=0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, float], word: str) -> None:
    with pytest.raises(HeedError, match=word):
        sampler(**arguments)
