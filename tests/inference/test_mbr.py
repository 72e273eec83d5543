"""Minimum Bayes risk decoding against its formula, with sacreBLEU's sentence-level scores."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from sacrebleu import sentence_bleu, sentence_chrf

from heed.decoding import BeamSearch, Hypothesis, SampleSearch, Search
from heed.errors import HeedError
from heed.inference.mbr import MBRSearch
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS, PAD
from tests.decoding.test_sampling import BigramModel

VOCABULARY = ["", "", "", "", "a", "dog", "dogs", "run", "runs", "."]
LENGTH_LIMITS = {"max_length_factor": 1.0, "max_length_extra": 3}
SETTINGS = {"utility": "chrf", "beam": 3, "length_penalty": 0.6, "samples": 6, "n_best": 4}
SETTINGS |= {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 3, "no_repeat_ngram_size": 0, **LENGTH_LIMITS}
SRC = torch.tensor([[5, 7, 6, EOS], [8, EOS, PAD, PAD], [6, 4, EOS, PAD]])
MASK = SRC != PAD


def bigrams(seed: int) -> Seq2Seq:
    generator = torch.Generator().manual_seed(seed)
    return BigramModel(1.5 * torch.randn(10, 10, 10, generator=generator, dtype=torch.float64))


def decode(ids: Sequence[Sequence[int]]) -> list[str]:
    return [" ".join(VOCABULARY[token] for token in tokens if VOCABULARY[token]) for tokens in ids]


def mbr(**changes: object) -> Search:
    return MBRSearch(**(SETTINGS | changes)).with_text(decode)  # type: ignore[arg-type]


def reference_mbr(beam: list[Hypothesis], samples: list[Hypothesis], utility: str) -> list[tuple[str, float]]:
    """Return the candidate texts with their expected utilities, best first, from the formula."""
    score = {"chrf": sentence_chrf, "bleu": partial(sentence_bleu, use_effective_order=True)}[utility]
    total = sum(math.exp(h.log_prob) for h in beam)
    weighted = [(h, 1 / len(samples)) for h in samples] or [(h, math.exp(h.log_prob) / total) for h in beam]
    texts = dict.fromkeys(decode([h.tokens for h in [*beam, *samples]]))
    expected = {text: sum(weight * score(text, decode([h.tokens])).score for h, weight in weighted) for text in texts}
    return sorted(expected.items(), key=lambda pair: -pair[1])


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
@pytest.mark.parametrize(("beam", "samples"), [(4, 0), (0, 7), (3, 6)])
def test_hypotheses_are_ordered_by_expected_utility(utility: str, beam: int, samples: int) -> None:
    model = bigrams(2)
    beams = (
        BeamSearch(beam=beam, length_penalty=0.6, n_best=beam, **LENGTH_LIMITS)(model, SRC, MASK) if beam else [[]] * 3
    )  # type: ignore[arg-type]
    sampler = partial(SampleSearch, temperature=1.0, top_k=None, top_p=None, seed=3, **LENGTH_LIMITS)  # type: ignore[arg-type]
    sampled = sampler(n_best=samples)(model, SRC, MASK) if samples else [[]] * 3
    found = mbr(beam=beam, samples=samples, utility=utility, n_best=beam + samples)(model, SRC, MASK)
    for row in range(3):
        expected = reference_mbr(beams[row], sampled[row], utility)
        assert [h.score for h in found[row]] == pytest.approx([score for _, score in expected])
        assert dict(zip(decode([h.tokens for h in found[row]]), [h.score for h in found[row]], strict=True)) == {
            text: pytest.approx(score) for text, score in expected
        }
    likeliest = BeamSearch(beam=5, length_penalty=0.0, n_best=1, **LENGTH_LIMITS)(model, SRC, MASK)  # type: ignore[arg-type]
    assert [h[0].tokens for h in found] != [h[0].tokens for h in likeliest], (
        "MBR and beam search choose the same: nothing is tested"
    )


def test_result_does_not_depend_on_the_batch() -> None:
    model, search = bigrams(5), mbr()
    together = search(model, SRC, MASK)
    for src, mask, n_best in zip(SRC, MASK, together, strict=True):
        assert len(n_best) <= 4
        source = src[mask][None]
        assert search(model, source, source != PAD) == [n_best]


def test_model_that_predicts_nan() -> None:
    model = bigrams(1)
    with torch.no_grad():
        model.logits.fill_(math.nan)
    for n_best in mbr(samples=0, n_best=1)(model, SRC, MASK):
        assert [h.tokens for h in n_best] == [[]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam": 1, "samples": 0}, "fewer than two candidates"),
        ({"beam": -1}, "search.beam=-1"),
        ({"n_best": 10}, "search.n_best=10"),
        ({"temperature": 0.0}, "temperature=0.0"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(HeedError, match=message):
        mbr(**arguments)


def test_conf_file_has_every_setting() -> None:
    conf = yaml.safe_load((Path(__file__).parents[2] / "conf" / "search" / "mbr.yaml").read_text())
    assert set(conf) - {"_target_"} == set(SETTINGS)


def test_bleu_of_text_without_spaces_counts_characters() -> None:
    letters = ["", "", "", "", "ก", "ข", "ค", "ง", "จ", "ฉ"]

    def thai(ids: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(letters[token] for token in tokens) for tokens in ids]

    search = MBRSearch(**(SETTINGS | {"utility": "bleu", "samples": 0, "n_best": 3})).with_text(thai)  # type: ignore[arg-type]
    beams = BeamSearch(beam=3, length_penalty=0.6, n_best=3, **LENGTH_LIMITS)(bigrams(2), SRC, MASK)  # type: ignore[arg-type]
    score = partial(sentence_bleu, use_effective_order=True, tokenize="char")
    for beam, found in zip(beams, search(bigrams(2), SRC, MASK), strict=True):
        texts, weights = thai([h.tokens for h in beam]), torch.tensor([h.log_prob for h in beam]).softmax(0).tolist()
        weighted = list(zip(texts, weights, strict=True))
        expected = {text: sum(weight * score(text, [ref]).score for ref, weight in weighted) for text in texts}
        assert [h.score for h in found] == pytest.approx(sorted(expected.values(), reverse=True))
