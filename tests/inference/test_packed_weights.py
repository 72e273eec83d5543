"""Translators with packed weights: changed weights, modified modules and threads."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import pytest
import torch
from torch import nn

from heed import kernels
from heed.data.pairs.tokenizer import Tokenizer
from heed.inference.engine import TorchEngine
from heed.inference.outputs import Translation
from heed.inference.translator import Translator
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from heed.models.transformer import Transformer
from tests.tokenizers import train_tokenizer

SENTENCES = ["a man rides a bike .", "the dog sleeps ."]
Make = Callable[..., Translator]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(SENTENCES, vocab_size=30, joint=True)


@pytest.fixture
def make(tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> Make:
    """Return a function that makes a translator with packed weights and an untrained model of a family."""

    def model(family: str) -> Seq2Seq:
        model = tiny_model(family, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
        with torch.no_grad():
            for parameter in model.parameters():  # far enough from the uniform distribution for different translations
                parameter.mul_(2.5)
        return model

    def translator(family: str, *, packed: bool = True) -> Translator:
        torch.manual_seed(3)
        members = [model(name) for name in family.split("+")]
        search = {"beam": 2, "max_length_factor": 0.2, "max_length_extra": 2}
        whole = Ensemble(members) if len(members) > 1 else members[0]
        return Translator(TorchEngine(whole, packed=packed), tokenizer, search)

    return translator


def results(translator: Translator) -> tuple[list[list[Translation]], list[float]]:
    return translator.hypotheses(SENTENCES, n=2), translator.score(SENTENCES, SENTENCES[::-1])


def assert_equal(found: Any, expected: Any) -> None:
    """Compare results: the same texts, and the same numbers up to rounding."""
    (found_translations, found_scores), (translations, scores) = found, expected
    for mine, theirs in zip(found_translations, translations, strict=True):
        assert [each.text for each in mine] == [each.text for each in theirs]
        assert [each.log_prob for each in mine] == pytest.approx([each.log_prob for each in theirs], rel=1e-4)
    assert found_scores == pytest.approx(scores, rel=1e-4)


def by_the_formulas(translator: Translator) -> Any:
    """Return the results of the modules as they are, without packed weights."""
    with kernels.plain():
        return results(translator)


def _halve_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(0.5)


def _halve_numpy_view(model: nn.Module) -> None:
    for parameter in model.parameters():
        view = parameter.detach().numpy()
        view *= 0.5


@pytest.mark.parametrize(
    ("family", "halve"), [("transformer", _halve_data), ("transformer", _halve_numpy_view), ("rnn", _halve_data)]
)
def test_changed_weights_are_seen(make: Make, family: str, halve: Callable[[nn.Module], None]) -> None:
    translator = make(family)
    before = results(translator)
    assert_equal(before, by_the_formulas(translator))
    halve(translator.model)
    after = results(translator)
    assert_equal(after, by_the_formulas(translator))
    assert after[1] != pytest.approx(before[1], rel=1e-2)


def overlap(first: Translator, second: Translator) -> None:
    """Translate in two threads: the second one starts before the first one ends, and ends after it."""
    first_began, second_began, first_ended = Event(), Event(), Event()
    patience = 60.0
    threads: list[Thread] = []

    def start(translator: Translator, in_batch: Callable[[float], object], after: Callable[[], object]) -> None:
        translator.on_batch = in_batch
        threads.append(Thread(target=lambda: (translator.translate(SENTENCES[0]), after())))
        threads[-1].start()

    start(first, lambda _: (first_began.set(), second_began.wait(patience)), first_ended.set)
    assert first_began.wait(patience)
    start(second, lambda _: (second_began.set(), first_ended.wait(patience)), lambda: None)
    for thread in threads:
        thread.join(patience)
    assert first_ended.is_set()


def test_translators_in_two_threads_leave_nothing_behind(make: Make) -> None:
    first, second, other = make("transformer"), make("rnn"), make("transformer", packed=False)
    overlap(first, second)
    model = other.model
    assert isinstance(model, Transformer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        assert_equal(results(other), by_the_formulas(other))
        src, tgt = torch.randint(4, 20, (2, 3, 5))
        loss = model(src, torch.ones_like(src, dtype=torch.bool), tgt).logsumexp(-1).mean()
        with kernels.plain():
            expected = model(src, torch.ones_like(src, dtype=torch.bool), tgt).logsumexp(-1).mean()
        torch.testing.assert_close(loss, expected)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    _halve_data(first.model)
    assert_equal(results(first), by_the_formulas(first))
