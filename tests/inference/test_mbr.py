"""The choice of least risk against its formula, with sacreBLEU's own scores of sentences."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from sacrebleu import sentence_bleu, sentence_chrf
from torch import Tensor, nn

from heed.decoding import BeamSearch, Hypothesis, SampleSearch, Search
from heed.errors import HeedError
from heed.inference.mbr import MBRSearch
from heed.models.seq2seq import DecoderOutput, DecoderState, Memory, Seq2Seq
from heed.symbols import EOS, PAD

WORDS = ["", "", "", "", "a", "dog", "dogs", "run", "runs", "."]
LIMIT = {"max_length_factor": 1.0, "max_length_extra": 3}
SETTINGS = {"utility": "chrf", "beam": 3, "length_penalty": 0.6, "samples": 6, "n_best": 4}
SETTINGS |= {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 3, **LIMIT}
SRC = torch.tensor([[5, 7, 6, EOS], [8, EOS, PAD, PAD], [6, 4, EOS, PAD]])
MASK = SRC != PAD


class State(DecoderState):
    def __init__(self, source: Tensor) -> None:
        self.source = source

    def reorder(self, rows: Tensor) -> "State":
        return State(self.source[rows])


class Bigrams(Seq2Seq):
    """p(next | first source token, last target token) from a random table."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(1.5 * torch.randn(10, 10, 10, generator=generator, dtype=torch.float64))

    def encode(self, src: Tensor, src_mask: Tensor, *, maps: bool = False) -> Memory:
        return Memory(src[..., None].double(), src_mask)

    def decode(self, tgt_in: Tensor, memory: Memory, *, maps: bool = False) -> DecoderOutput:
        return DecoderOutput(self.table[memory.states[:, :1, 0].long(), tgt_in])

    def start(self, memory: Memory) -> State:
        return State(memory.states[:, 0, 0].long())

    def step(self, tokens: Tensor, state: DecoderState, *, maps: bool = False) -> tuple[DecoderOutput, State]:
        assert isinstance(state, State)
        return DecoderOutput(self.table[state.source, tokens][:, None]), state


def read(ids: Sequence[Sequence[int]]) -> list[str]:
    return [" ".join(WORDS[token] for token in tokens if WORDS[token]) for tokens in ids]


def mbr(**changes: object) -> Search:
    return MBRSearch(**(SETTINGS | changes)).with_text(read)  # type: ignore[arg-type]


def by_the_book(beam: list[Hypothesis], draws: list[Hypothesis], utility: str) -> list[tuple[str, float]]:
    """Texts with their expected utilities, best first."""
    similar = {"chrf": sentence_chrf, "bleu": partial(sentence_bleu, use_effective_order=True)}[utility]
    whole = sum(math.exp(h.log_prob) for h in beam)
    weighted = [(h, 1 / len(draws)) for h in draws] or [(h, math.exp(h.log_prob) / whole) for h in beam]
    texts = dict.fromkeys(read([h.tokens for h in [*beam, *draws]]))
    expected = {text: sum(weight * similar(text, read([h.tokens])).score for h, weight in weighted) for text in texts}
    return sorted(expected.items(), key=lambda pair: -pair[1])


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
@pytest.mark.parametrize(("beam", "samples"), [(4, 0), (0, 7), (3, 6)])
def test_the_largest_expected_utility_comes_first(utility: str, beam: int, samples: int) -> None:
    model = Bigrams(2)
    beams = BeamSearch(beam=beam, length_penalty=0.6, n_best=beam, **LIMIT)(model, SRC, MASK) if beam else [[]] * 3  # type: ignore[arg-type]
    sampler = partial(SampleSearch, temperature=1.0, top_k=None, top_p=None, seed=3, **LIMIT)  # type: ignore[arg-type]
    draws = sampler(n_best=samples)(model, SRC, MASK) if samples else [[]] * 3
    found = mbr(beam=beam, samples=samples, utility=utility, n_best=beam + samples)(model, SRC, MASK)
    for row in range(3):
        expected = by_the_book(beams[row], draws[row], utility)
        assert [h.score for h in found[row]] == pytest.approx([score for _, score in expected])
        assert dict(zip(read([h.tokens for h in found[row]]), [h.score for h in found[row]], strict=True)) == {
            text: pytest.approx(score) for text, score in expected
        }
    likeliest = BeamSearch(beam=5, length_penalty=0.0, n_best=1, **LIMIT)(model, SRC, MASK)  # type: ignore[arg-type]
    assert [h[0].tokens for h in found] != [h[0].tokens for h in likeliest], "another choice than the likeliest"


def test_the_batch_has_no_part_in_it() -> None:
    model, search = Bigrams(5), mbr()
    together = search(model, SRC, MASK)
    for src, mask, n_best in zip(SRC, MASK, together, strict=True):
        assert len(n_best) <= 4
        source = src[mask][None]
        assert search(model, source, source != PAD) == [n_best]


def test_a_model_that_says_nothing() -> None:
    model = Bigrams(1)
    with torch.no_grad():
        model.table.fill_(math.nan)
    for n_best in mbr(samples=0, n_best=1)(model, SRC, MASK):
        assert [h.tokens for h in n_best] == [[]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"beam": 1, "samples": 0}, "no choice"),
        ({"beam": -1}, "search.beam=-1"),
        ({"n_best": 10}, "search.n_best=10"),
        ({"temperature": 0.0}, "temperature=0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(HeedError, match=words):
        mbr(**arguments)


def test_conf_has_every_setting() -> None:
    conf = yaml.safe_load((Path(__file__).parents[2] / "conf" / "search" / "mbr.yaml").read_text())
    assert set(conf) - {"_target_"} == set(SETTINGS)
