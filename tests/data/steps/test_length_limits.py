"""No sentence is longer than the model or a micro-batch allows, however it is segmented and whatever noise it has."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heed.data.datamodule import TranslationData
from heed.data.pairs.augmentation import within
from heed.data.pairs.pairs import IntArray, Pairs, id_lists
from heed.data.steps.steps import Planner
from heed.data.text.corpus import Corpus, EvaluationSet
from heed.data.text.noise import Noise
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.languages import Direction
from tests.data.texts import numbered_dogs, only_text, train_tokenizer, training_text

PAIRS = numbered_dogs(60)
EN_DE = Direction("en", "de")
NOISE = Noise(typos=0.5, upper=0.5)
FREE = (math.inf, math.inf, math.inf)

Ids = tuple[tuple[int, ...], tuple[int, ...]]


def build(
    cache: Path,
    limits: Mapping[str, tuple[float, float, float]],
    *,
    device_tokens: int = 10_000,
    bpe_dropout: float = 0.0,
    noise: Noise | None = None,
    both: bool = False,
    held_out: Sentences = PAIRS,
) -> TranslationData:
    corpus = Corpus(
        name="dogs",
        train=only_text(replace(training_text(PAIRS, cache), noise=noise), both_directions=both),
        valid={"valid": EvaluationSet(held_out, EN_DE)},
        tests={},
        max_eval_tokens=None,
    )
    tokenizer = train_tokenizer(PAIRS, cache, tags=corpus.tags)
    planner = Planner(batch_tokens=120, device_tokens=device_tokens, pool=30, seed=1)
    return TranslationData(corpus, tokenizer, planner, bpe_dropout=bpe_dropout, with_tests=False, limits=limits)


def drawn(data: TranslationData, steps: int, *, processes: int = 1) -> dict[tuple[int, int], Ids]:
    """Return source and target ids with EOS, by step and by the pair's row."""
    found = {}
    try:
        for rank in range(processes):
            for number, shard in enumerate(islice(data.stream.shards(rank, processes), steps)):
                for _, batch in shard.micro_batches:
                    for row, src, tgt in zip(batch.index, batch.src, batch.tgt_out, strict=True):
                        found[number, int(row)] = (tuple(src[src > 0].tolist()), tuple(tgt[tgt > 0].tolist()))
    finally:
        data.teardown("fit")
    return found


def lengths(ids: Mapping[tuple[int, int], Ids]) -> IntArray:
    return np.array([(len(src), len(tgt), len(src) + len(tgt)) for src, tgt in ids.values()])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "random"),
    [
        pytest.param(kind, random, marks=() if number == place else pytest.mark.full)
        for number, kind in enumerate(["max_length", "max_source", "device_tokens"])
        for place, random in enumerate([{"bpe_dropout": 0.9}, {"noise": NOISE}, {"bpe_dropout": 0.5, "noise": NOISE}])
    ],
)
def test_no_drawn_pair_exceeds_a_limit(kind: str, random: dict[str, Any], tmp_path: Path) -> None:
    both = kind == "max_length"  # with tags, and each side is a source
    plain, free = (drawn(build(tmp_path, {}, both=both, **of_run), 40) for of_run in ({}, random))
    # Some samples fit, and others do not.
    src, tgt, pair = np.maximum(lengths(plain).max(0), np.median(lengths(free), axis=0)).astype(int).tolist()
    assert lengths(free)[:, 0].max() > src
    most = {
        "max_length": (src, max(src, tgt), math.inf),
        "max_source": (src, *FREE[1:]),
        "device_tokens": (*FREE[1:], pair),
    }
    limits = {} if kind == "device_tokens" else {kind: most[kind]}
    options: dict[str, Any] = {"both": both, **random} | ({} if limits else {"device_tokens": pair})
    found = drawn(build(tmp_path, limits, **options), 40)
    assert (lengths(found) <= most[kind]).all()
    unsampled = {row: ids for (_, row), ids in plain.items()}
    is_sampled = {ids != unsampled[row] for (_, row), ids in found.items() if row in unsampled}
    assert is_sampled == {True, False}
    assert drawn(build(tmp_path, limits, **options), 40, processes=2) == found


def test_only_pairs_beyond_the_limit_keep_their_ids() -> None:
    pairs = Pairs(np.array([5, 6, 7]), id_lists([[1], [2], [3]]), id_lists([[1], [2], [3]]))
    longer = replace(pairs, src=id_lists([[8], [8, 8], [8]]), tgt=id_lists([[9], [9], [9, 9]]))
    for limit, kept in ((FREE, []), ((1, 9, 9), [1]), ((9, 1, 9), [2]), ((9, 9, 2), [1, 2])):
        found = within(limit, longer, pairs)
        for row in range(3):
            expected = pairs if row in kept else longer
            assert (found.rows[row], found.src[row], found.tgt[row]) == (5 + row, expected.src[row], expected.tgt[row])


@pytest.mark.parametrize("side", ["source", "target", "pair"])
@pytest.mark.parametrize("both", [False, True])
def test_a_training_pair_that_is_too_long_is_refused_with_its_line(side: str, both: bool, tmp_path: Path) -> None:
    tokenizer = build(tmp_path, {}, both=both).tokenizer
    src, tgt = tokenizer.encode_src(PAIRS.src, tagged=False), tokenizer.encode_tgt(PAIRS.tgt)
    counts = ((len(s) + both, len(t)) for s, t in zip(src, tgt, strict=True))
    sizes = np.array([[s + 1, t + 1, s + t + 2] for s, t in counts])
    if both:
        sizes = np.maximum(sizes, sizes[:, [1, 0, 2]] + [[1, -1, 0]])
    of_side = sizes[:, ["source", "target", "pair"].index(side)]
    longest = int(of_side.max())

    def start(most: int) -> TranslationData:
        limit = {"source": (most, *FREE[1:]), "target": (math.inf, most, math.inf), "pair": FREE}[side]
        device_tokens = most if side == "pair" else 10_000
        short = Sentences(["a"], ["b"])
        return build(tmp_path, {"limit": limit}, device_tokens=device_tokens, both=both, held_out=short)

    message = rf"data\.train, sentence pair (\d+): .*more than (limit|batching.*): set it to {longest} or more"
    with pytest.raises(HeedError, match=message) as error:
        start(longest - 1)
    found = re.search(message, str(error.value))
    assert found
    assert of_side[int(found[1]) - 1] == longest
    start(longest)


def test_an_evaluation_sentence_that_the_model_cannot_read_is_refused(tmp_path: Path) -> None:
    long = Sentences(["a dog", "the dog " * 30], ["ein Hund", "der Hund"])
    with pytest.raises(HeedError, match=r"data\.valid, sentence pair 2: .*more than max_source=40: .* split it"):
        build(tmp_path, {"max_source=40": (40, *FREE[1:])}, held_out=long)
