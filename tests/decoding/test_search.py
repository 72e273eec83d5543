"""Both searches against exhaustive enumeration, against each other, and against their own batches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Bool, Int
from torch import Tensor, nn

from heed.decoding import BeamSearch, GreedySearch, Hypothesis, SampleSearch, Search
from heed.decoding.beam import Beams
from heed.decoding.search import token_log_probs
from heed.errors import HeedError
from heed.models.seq2seq import DecoderOutput, DecoderState, Memory, Seq2Seq
from heed.symbols import BOS, EOS, PAD


@dataclass(frozen=True)
class TableState(DecoderState):
    context: Int[Tensor, " R"]

    def reorder(self, rows: Int[Tensor, " R2"], sentences: Int[Tensor, " N2"] | None = None) -> "TableState":
        return TableState(self.context[rows])


class TableModel(Seq2Seq):
    """p(next | source, prefix) read from a random table, by a hash of both: any distribution over sequences."""

    contexts = 4999

    def __init__(self, seed: int, vocab: int = 6, spread: float = 1.5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        table = spread * torch.randn(self.contexts, vocab, generator=generator, dtype=torch.float64)
        self.table = nn.Parameter(table)
        self.rows_stepped: list[int] = []

    def encode(self, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], *, maps: bool = False) -> Memory:
        context = torch.zeros(len(src), dtype=torch.long)
        for token, real in zip(src.T, src_mask.T, strict=True):
            context = torch.where(real, self._read(context, token), context)
        return Memory(context[:, None, None].double().expand(*src.shape, 1), src_mask)

    def decode(self, tgt_in: Int[Tensor, "B T"], memory: Memory, *, maps: bool = False) -> DecoderOutput:
        state = self.start(memory)
        logits = []
        for tokens in tgt_in.T:
            output, state = self.step(tokens, state)
            logits.append(output.logits)
        return DecoderOutput(torch.cat(logits, dim=1))

    def start(self, memory: Memory) -> TableState:
        return TableState(memory.states[:, 0, 0].long())

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState, *, maps: bool = False
    ) -> tuple[DecoderOutput, TableState]:
        assert isinstance(state, TableState)
        self.rows_stepped.append(len(tokens))
        context = self._read(state.context, tokens)
        return DecoderOutput(self.table[context][:, None]), TableState(context)

    def _read(self, context: Tensor, token: Tensor) -> Tensor:
        return (context * 31 + token * 7 + 1) % self.contexts


def batch_of(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(ids) for ids in sources])
    src = nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sources], batch_first=True, padding_value=PAD)
    return src, torch.arange(src.shape[1]) < lengths[:, None]


def beam_search(beam: int, *, alpha: float = 0.6, n_best: int = 1, factor: float = 1.0, extra: int = 2) -> BeamSearch:
    return BeamSearch(beam=beam, length_penalty=alpha, n_best=n_best, max_length_factor=factor, max_length_extra=extra)


def greedy_search(*, factor: float = 1.0, extra: int = 2) -> GreedySearch:
    return GreedySearch(max_length_factor=factor, max_length_extra=extra)


def log_p(model: Seq2Seq, source: list[int], target: list[int]) -> float:
    """Under teacher forcing, in one call per sentence."""
    src, src_mask = batch_of([source])
    with torch.no_grad():
        log_probs = model(src, src_mask, torch.tensor([[BOS, *target[:-1]]])).log_softmax(2)
    return float(log_probs[0, range(len(target)), target].sum())


def exhaustive(model: Seq2Seq, source: list[int], limit: int, alpha: float, vocab: int = 6) -> list[Hypothesis]:
    """Every sequence there is up to the limit: the finished ones best first, then the cut ones best first."""
    words = [token for token in range(vocab) if token not in (PAD, BOS, EOS)]
    finished = [[*words_, EOS] for length in range(limit) for words_ in product(words, repeat=length)]
    cut = [list(words_) for words_ in product(words, repeat=limit)]
    hypotheses = []
    for ids in finished + cut:
        log_prob = log_p(model, source, ids)
        score = log_prob / ((5 + len(ids)) / 6) ** alpha
        ends = ids[-1] == EOS
        hypotheses.append(Hypothesis(ids[:-1] if ends else ids, log_prob, score, ends))
    return sorted(hypotheses, key=lambda h: (not h.finished, -h.score))


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-9)
        assert ours.score == pytest.approx(theirs.score, abs=1e-9)


sentences = st.lists(st.integers(4, 22), min_size=1, max_size=7).map(lambda ids: [*ids, EOS])
batches = st.lists(sentences, min_size=1, max_size=6)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=alphas, n_best=st.sampled_from([1, 3, 130]), spread=st.floats(0.3, 4))
def test_a_wide_beam_is_exhaustive(seed: int, alpha: float, n_best: int, spread: float) -> None:
    model = TableModel(seed, spread=spread)
    sources = [[4, EOS], [5, 4, EOS]]
    limits = [3, 4]
    # At most 3^4 prefixes live at a time, and no sequence may be pruned.
    found = beam_search(130, alpha=alpha, n_best=n_best, extra=1)(model, *batch_of(sources))
    for source, limit, n_bests in zip(sources, limits, found, strict=True):
        assert_same(n_bests, exhaustive(model, source, limit, alpha)[:n_best])


def plain_beam(model: TableModel, source: list[int], limit: int, beam: int, alpha: float) -> list[Hypothesis]:
    """Beam search as one would write it on paper: no tensors, no batch, no early stop."""
    live: list[list[int]] = [[]]
    finished, cut = [], []
    for length in range(1, limit + 1):
        tokens = [token for token in range(model.table.shape[1]) if token not in (PAD, BOS)]
        scored = [(log_p(model, source, [*prefix, token]), [*prefix, token]) for prefix in live for token in tokens]
        best = sorted(scored, key=lambda pair: -pair[0])[:beam]
        for log_prob, ids in best:
            hypothesis = Hypothesis(ids, log_prob, log_prob / ((5 + length) / 6) ** alpha, ids[-1] == EOS)
            if hypothesis.finished:
                finished.append(Hypothesis(ids[:-1], log_prob, hypothesis.score, True))
            elif length == limit:
                cut.append(hypothesis)
        live = [ids for _, ids in best if ids[-1] != EOS]
    return sorted(finished, key=lambda h: -h.score) + sorted(cut, key=lambda h: -h.score)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=alphas, beam=st.integers(1, 5), sources=batches, data=st.data())
def test_a_narrow_beam_is_the_search_on_paper(
    seed: int, alpha: float, beam: int, sources: list[list[int]], data: st.DataObject
) -> None:
    model = TableModel(seed, vocab=9)
    n_best = data.draw(st.integers(1, beam))
    found = beam_search(beam, alpha=alpha, n_best=n_best)(model, *batch_of(sources))
    for source, n_bests in zip(sources, found, strict=True):
        assert_same(n_bests, plain_beam(model, source, len(source) + 2, beam, alpha)[:n_best])


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=alphas, sources=batches)
def test_a_beam_of_one_is_greedy(seed: int, alpha: float, sources: list[list[int]]) -> None:
    model = TableModel(seed, vocab=11)
    greedy = greedy_search()(model, *batch_of(sources))
    for (ours,), (theirs,) in zip(beam_search(1, alpha=alpha)(model, *batch_of(sources)), greedy, strict=True):
        assert (ours.tokens, ours.log_prob, ours.finished) == (theirs.tokens, theirs.log_prob, theirs.finished)


class Unstoppable(BeamSearch):
    def _can_stop(self, beams: Beams) -> Tensor:
        return beams.log_prob.amax(1) == -math.inf


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=alphas, n_best=st.integers(1, 4), sources=batches)
def test_stopping_early_changes_nothing(seed: int, alpha: float, n_best: int, sources: list[list[int]]) -> None:
    model = TableModel(seed, vocab=9)
    stopping = beam_search(4, alpha=alpha, n_best=n_best, extra=6)
    unstoppable = Unstoppable(**vars(stopping))
    assert stopping(model, *batch_of(sources)) == unstoppable(model, *batch_of(sources))


def test_finished_sentences_leave_and_an_early_stop_saves_steps() -> None:
    model = TableModel(1, vocab=9)
    sources = [[token, EOS] for token in range(4, 24)]
    stopping = beam_search(3, extra=28)
    stopping(model, *batch_of(sources))
    rows, model.rows_stepped = model.rows_stepped, []
    assert rows[0] == 20  # the first step has one prefix a sentence
    assert 20 < rows[1] <= 60
    assert all(count % 3 == 0 for count in rows[1:])
    assert rows[1:] == sorted(rows[1:], reverse=True)
    assert rows[-1] < 60
    Unstoppable(**vars(stopping))(model, *batch_of(sources))
    assert sum(rows) < sum(model.rows_stepped) / 2
    model.rows_stepped = []
    greedy_search(extra=28)(model, *batch_of(sources))
    assert model.rows_stepped[0] == 20
    assert model.rows_stepped[-1] < 20


@pytest.mark.parametrize("search", [greedy_search(), beam_search(3, n_best=3)], ids=["greedy", "beam"])
def test_no_eos_means_cut_at_the_sentences_own_limit(search: Search) -> None:
    model = TableModel(0, vocab=9)
    with torch.no_grad():
        model.table[:, EOS] = -math.inf
    found = search(model, *batch_of([[4, EOS], [4, 5, 6, 7, EOS]]))
    assert [[(len(h.tokens), h.finished) for h in n_best] for n_best in found] == [
        [(4, False)] * len(found[0]),
        [(7, False)] * len(found[1]),
    ]


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_model_that_says_nothing_still_gets_an_answer(value: float) -> None:
    model = TableModel(0)
    with torch.no_grad():
        model.table[:, [token for token in range(6) if token != PAD]] = value
    found = greedy_search()(model, *batch_of([[4, EOS]]))
    assert [[h.tokens for h in n_best] for n_best in found] == [[[]]]
    nothing = Hypothesis(tokens=[], log_prob=-math.inf, score=-math.inf, finished=False)
    assert beam_search(3)(model, *batch_of([[4, EOS]])) == [[nothing]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_token_log_probs_are_normalised_over_the_whole_vocabulary(dtype: torch.dtype) -> None:
    logits = torch.randn(5, 7, dtype=torch.float64).to(dtype)
    log_probs = token_log_probs(logits)
    assert log_probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    expected = logits.double().exp() / logits.double().exp().sum(1, keepdim=True)
    expected[:, [PAD, BOS]] = 0.0
    torch.testing.assert_close(log_probs.double().exp(), expected, rtol=1e-6, atol=0)


def test_tokens_after_nan_have_no_probability() -> None:
    logits = torch.randn(3, 7)
    logits[1, 5] = math.nan
    log_probs = token_log_probs(logits)
    assert (log_probs[1] == -math.inf).all()
    assert log_probs[[0, 2]][:, EOS:].isfinite().all()


def test_log_probabilities_are_never_positive() -> None:
    """Exact early stopping relies on it, and careless rounding gives log p > 0 here."""
    certain = torch.randn(200, 9) * 0.01
    certain[:, 5] = 30 + torch.rand(200) * 40
    for logits in (certain, torch.full((1, 9), 80.0), torch.tensor([[0.0, -99, 0, 0, 100, -100]]), torch.randn(99, 9)):
        assert (token_log_probs(logits) <= 0).all()


def test_ties_are_broken_alike_in_every_batch() -> None:
    model = TableModel(0, vocab=9, spread=0.0)
    sources = [[4, EOS], [5, 6, 7, EOS], [8, 8, EOS]]
    for search in (greedy_search(), beam_search(4, n_best=4)):
        together = search(model, *batch_of(sources))
        assert together == [search(model, *batch_of([source]))[0] for source in sources]
    # UNK, 1, is the lowest id that may be written.
    assert greedy_search()(model, *batch_of(sources))[0][0].tokens == [1, 1, 1, 1]


SOURCES = ([7, EOS], [5, 6, 9, 22, 11, 8, EOS], [9, 9, 4, EOS], [20, 21, EOS], [4, 5, 6, EOS])


@pytest.fixture(params=["transformer", "rnn"])
def model(request: pytest.FixtureRequest, tiny_model: Callable[..., Seq2Seq]) -> Seq2Seq:
    torch.manual_seed(5)
    model = tiny_model(request.param)
    with torch.no_grad():  # far enough from the uniform distribution to have something to say
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model


searches = pytest.mark.parametrize("search", [greedy_search(), beam_search(4, n_best=3)], ids=["greedy", "beam"])


@searches
def test_the_batch_has_no_part_in_the_answer(model: Seq2Seq, search: Search) -> None:
    alone = [search(model, *batch_of([source]))[0] for source in SOURCES]
    for order in ([0, 1, 2, 3, 4], [3, 1, 4, 0, 2], [1, 4], [2, 0, 3]):
        together = search(model, *batch_of([SOURCES[row] for row in order]))
        for row, found in zip(order, together, strict=True):
            assert_same(found, alone[row])
    assert len({tuple(h.tokens) for n_best in alone for h in n_best}) > 2


@searches
def test_log_prob_is_that_of_teacher_forcing(model: Seq2Seq, search: Search) -> None:
    for source, n_best in zip(SOURCES, search(model, *batch_of(SOURCES)), strict=True):
        for hypothesis in n_best:
            ids = hypothesis.tokens + [EOS] * hypothesis.finished
            assert hypothesis.log_prob == pytest.approx(log_p(model, source, ids), abs=1e-9)
        scores = [hypothesis.score for hypothesis in n_best if hypothesis.finished]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.tokens) for hypothesis in n_best}) == len(n_best)


LIMITS: dict[str, Any] = {"max_length_factor": 1.0, "max_length_extra": 9}


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(**LIMITS),
        BeamSearch(beam=4, length_penalty=0.6, n_best=3, **LIMITS),
        SampleSearch(temperature=1.0, top_k=None, top_p=None, seed=1, n_best=2, **LIMITS),
        SampleSearch(temperature=0.7, top_k=9, top_p=0.8, seed=1, n_best=2, **LIMITS),
    ],
    ids=["greedy", "beam", "sample", "nucleus"],
)
def test_stop_checks_as_rare_as_on_an_accelerator_change_nothing(
    model: Seq2Seq, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_every_step = search(model, *batch_of(SOURCES))
    assert len({len(h.tokens) for n_best in at_every_step for h in n_best}) > 2
    for module in ("search", "beam"):
        monkeypatch.setattr(f"heed.decoding.{module}.steps_between_stop_checks", lambda device: 8)
    for ours, theirs in zip(search(model, *batch_of(SOURCES)), at_every_step, strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"beam": 0}, "beam=0"),
        ({"beam": 2, "n_best": 3}, "n_best=3"),
        ({"beam": 2, "alpha": -0.1}, "length_penalty=-0.1"),
        ({"beam": 2, "factor": 0.0, "extra": 0}, "max_length"),
        ({"beam": 2, "factor": -1.0}, "max_length"),
    ],
)
def test_contradictions_are_refused(arguments: dict[str, float], word: str) -> None:
    with pytest.raises(HeedError, match=word):
        beam_search(**arguments)  # type: ignore[arg-type]
