"""Probabilities of words against teacher forcing over every possible word."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from heed.data.pairs.tokenizer import Tokenizer
from heed.inference.engine import pad
from heed.inference.translator import Translator
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, WORD_START
from tests.tokenizers import train_tokenizer

LINES = ["a man rides a bike .", "the dog sleeps .", "a woman reads .", "children play ."]
SENTENCE = "the dog sleeps ."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, vocab_size=34, joint=True)


@pytest.fixture(params=["transformer", "rnn", "ensemble"])
def translator(request: pytest.FixtureRequest, tokenizer: Tokenizer, tiny_model: Callable[..., Seq2Seq]) -> Translator:
    torch.manual_seed(3)
    sizes = {"src_vocab": tokenizer.src_vocab, "tgt_vocab": tokenizer.tgt_vocab}
    families = ["transformer", "rnn"] if request.param == "ensemble" else [request.param]
    members = [tiny_model(family, **sizes) for family in families]
    with torch.no_grad():
        for parameter in (each for member in members for each in member.parameters()):
            parameter.mul_(1.5)
    return Translator(members[0] if len(members) == 1 else Ensemble(members), tokenizer, batch_tokens=30)


def next_pieces(translator: Translator, prefixes: list[list[int]]) -> np.ndarray:
    """The probabilities of the next piece after each prefix, by teacher forcing."""
    (source,) = translator.encode([SENTENCE])
    src, mask = pad([[*source, EOS]] * len(prefixes), torch.device("cpu"))
    with torch.no_grad():
        return translator.model(src, mask, torch.tensor([[BOS, *ids] for ids in prefixes]))[:, -1].softmax(-1).numpy()


def every_word(translator: Translator, prefix: list[int]) -> dict[str, float]:
    """The probability of each word of up to two pieces, and of the end, each in its best segmentation."""
    pieces = translator.tokenizer.tgt_pieces(range(translator.tokenizer.tgt_vocab))
    starts = np.array([piece.startswith(WORD_START) or id_ == EOS for id_, piece in enumerate(pieces)])
    first = next_pieces(translator, [prefix])[0]
    if prefix:
        first = np.where(starts, first / first[starts].sum(), 0)
    first[:EOS] *= np.array([0, 1, 0])  # no search writes PAD and BOS
    found: dict[str, float] = {"": first[EOS]}

    def add(ids: list[int], probability: float) -> None:
        (text,) = translator.tokenizer.decode_tgt([ids])
        if text:
            found[text] = max(found.get(text, 0), probability)

    ones = [id_ for id_ in range(len(pieces)) if first[id_] and id_ != EOS]
    after = next_pieces(translator, [[*prefix, one] for one in ones])
    for one, following in zip(ones, after, strict=True):
        add([one], first[one] * following[starts].sum())
    twos = [(one, two) for one in ones for two in range(len(pieces)) if not starts[two] and two not in (0, BOS)]
    ends = next_pieces(translator, [[*prefix, *two] for two in twos])[:, starts].sum(1)
    for (one, two), end in zip(twos, ends, strict=True):
        add([one, two], first[one] * after[ones.index(one), two] * end)
    return found


@pytest.mark.parametrize("prefix", ["", "the dog", "reads ."])
def test_the_most_probable_words_are_those_of_an_exhaustive_search(
    translator: Translator, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heed.inference.next_words.LONGEST_WORD", 2)
    possible = every_word(translator, translator.tokenizer.encode_tgt([prefix])[0])
    best = sorted(possible.items(), key=lambda word: -word[1])
    found = translator.next_words(SENTENCE, prefix, n=450)[:6]  # with a beam for all words
    assert [word for word, _ in found] == [word for word, _ in best[:6]]
    assert [math.exp(log_prob) for _, log_prob in found] == pytest.approx([p for _, p in best[:6]], rel=1e-6)
    assert translator.next_words(SENTENCE, f"{prefix} ", n=450)[:2] == found[:2]


def test_words_multiply_to_the_translation(translator: Translator) -> None:
    for line, target in zip(LINES, LINES[::-1], strict=True):
        (words,) = translator.score_words(line, target)
        assert [word for word, _ in words] == target.split()
        for number, (word, log_prob) in enumerate(words):
            following = dict(translator.next_words(line, " ".join(target.split()[:number]), n=60))
            assert following.get(word, 0.0) >= log_prob - 1e-6  # there may be a better segmentation
        end = dict(translator.next_words(line, target, n=60))[""]
        (score,) = translator.score(line, target)
        assert sum(log_prob for _, log_prob in words) + end == pytest.approx(score, abs=1e-6)


def test_an_empty_translation_has_no_words(translator: Translator) -> None:
    assert translator.score_words([SENTENCE, "", ""], ["", "the dog", ""])[::2] == [[], []]


def test_a_prefix_at_the_limit_of_the_model_has_no_next_word(translator: Translator) -> None:
    translator.model.max_target_length = 3
    assert translator.next_words(SENTENCE, "the dog sleeps . the dog") == []
