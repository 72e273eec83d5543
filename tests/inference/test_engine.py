"""A Translator over an engine that is not heed's own; length batches and padding."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import Hypothesis, SampleSearch, Search
from heed.decoding.search import Constraints
from heed.errors import HeedError
from heed.inference.engine import Engine, length_batches, pad
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq
from heed.symbols import PAD
from tests.tokenizers import train_tokenizer

SENTENCES = ["a man rides a bike .", "", "the dog sleeps .", "two children play ."]


class Echo(Engine):
    """Finds the source as its own translation, and records its batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def check(self, search: Search, *, constrained: bool = False) -> None:
        if isinstance(search, SampleSearch):
            raise HeedError("An echo has no samples.")

    def search(
        self, sources: Sequence[Sequence[int]], search: Search, constraints: Constraints = None
    ) -> list[list[Hypothesis]]:
        self.batches.append(len(sources))
        return [[Hypothesis([*ids], log_prob=-1.0, score=-1.0, finished=True)] for ids in sources]


@pytest.fixture
def translator(tiny_model: Callable[..., Seq2Seq]) -> Translator:
    tokenizer: Tokenizer = train_tokenizer(SENTENCES, vocab_size=60, joint=True)
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab)
    return Translator(model, tokenizer, batch_tokens=20)


def test_an_engine_searches_and_the_model_scores(translator: Translator) -> None:
    engine, progress = Echo(), list[float]()
    echo = translator.with_engine(engine)
    echo.on_batch = progress.append
    assert echo.translate(SENTENCES) == SENTENCES
    assert sum(engine.batches) == 3  # none for the empty line
    assert sum(progress) == len(SENTENCES)
    assert [best.log_prob for (best,) in echo.hypotheses(SENTENCES)] == [-1.0, 0.0, -1.0, -1.0]
    assert echo.score(SENTENCES, SENTENCES) == translator.score(SENTENCES, SENTENCES)
    assert [pair.target for pair in echo.attend(SENTENCES)] == SENTENCES
    assert translator.translate(SENTENCES) != SENTENCES


def test_a_search_that_an_engine_does_not_have_is_refused_before_a_line_is_read(translator: Translator) -> None:
    echo = translator.with_engine(Echo())
    with pytest.raises(HeedError, match="no samples"):
        echo.stream_hypotheses(iter(()), chunk=1, sample=True)
    with pytest.raises(HeedError, match="no samples"):
        Translator(translator.model, translator.tokenizer, {"temperature": 1.0}).with_engine(Echo()).in_direction(None)


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 100))
def test_length_batches_hold_every_index_once_within_the_budget(lengths: list[int], batch_tokens: int) -> None:
    batches = list(length_batches(lengths, batch_tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = lengths[batch[0]]
        assert longest == max(lengths[index] for index in batch)
        assert len(batch) * longest <= batch_tokens or len(batch) == 1


def test_pad_masks_the_padding() -> None:
    ids, mask = pad([[5], [6, 7, 8]], torch.device("cpu"))
    assert ids.tolist() == [[5, PAD, PAD], [6, 7, 8]]
    assert mask.tolist() == [[True, False, False], [True, True, True]]


@pytest.mark.parametrize("options", [{}, {"alignments": True}, {"n": 2, "alignments": True}])
def test_progress_counts_each_sentence_once(translator: Translator, options: dict[str, Any]) -> None:
    progress = list[float]()
    translator.on_batch = progress.append
    translator.hypotheses(SENTENCES, **options)
    assert sum(progress) == len(SENTENCES)
    progress.clear()
    translator.attend(SENTENCES)
    assert sum(progress) == len(SENTENCES)
    progress.clear()
    translator.align(SENTENCES, SENTENCES)
    assert sum(progress) == len(SENTENCES)
