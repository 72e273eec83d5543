"""BPE-dropout: frequencies of segmentations, reproducibility, and plain BPE at rate 0."""

import io
import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import sentencepiece as spm

from heed.data.pairs.augmentation import SEGMENTATIONS, BPEDropout
from heed.data.pairs.pairs import id_lists
from heed.errors import HeedError
from tests import forkserver
from tests.data.texts import ROOT

WORDS = ("low", "lower", "newest", "widest", "lowest", "unrelated", "fährt", "Straße", "well-known", "3,141")
LINES = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS]
Processor = spm.SentencePieceProcessor


def train_model(kind: str = "bpe", size: int = 330) -> bytes:
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type=kind, vocab_size=size, byte_fallback=True,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def bpe() -> Processor:
    return Processor(model_proto=train_model())


@pytest.mark.parametrize("size", [300, 330, 360])
def test_rate_0_is_bpe_and_every_rate_keeps_the_text(size: int) -> None:
    bpe = Processor(model_proto=train_model(size=size))
    lines = [
        *LINES,
        "",
        "unknown words: 漢字 in the newest wellness",
        "  spaces  everywhere ",
        "lowlowlower",
        "lllooowww",
    ]
    ids = bpe.encode(lines)
    assert any(bpe.is_byte(id_) for sentence in ids for id_ in sentence), "the lines contain byte-fallback pieces"
    for rate in (0.0, 0.9):
        segmented = segment(BPEDropout(bpe, rate=rate), ids)
        assert (segmented == ids) is (rate == 0)
        assert bpe.decode(segmented) == bpe.decode(ids)


def segment(dropout: BPEDropout, ids: Sequence[Sequence[int]], *, seed: str = "1", first: int = 0) -> list[list[int]]:
    """Segment sentences that are numbered from ``first``."""
    drawn: list[list[int]] = dropout(id_lists(ids), np.arange(first, first + len(ids)), seed=seed).to_pylist()
    return drawn


def probabilities(bpe: Processor, pieces: tuple[str, ...], rate: float) -> Counter[tuple[str, ...]]:
    """The exact distribution of Provilkov et al. 2020, algorithm 1, by enumeration of all outcomes."""
    known = {bpe.id_to_piece(id_): id_ for id_ in range(bpe.get_piece_size())}
    merges = [i for i in range(len(pieces) - 1) if pieces[i] + pieces[i + 1] in known]
    merges.sort(key=lambda i: (-bpe.get_score(known[pieces[i] + pieces[i + 1]]), i))
    found: Counter[tuple[str, ...]] = Counter()
    for number, i in enumerate(merges):
        # All better merges are dropped, this one is not.
        merged = (*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :])
        for outcome, p in probabilities(bpe, merged, rate).items():
            found[outcome] += rate**number * (1 - rate) * p
    found[pieces] += rate ** len(merges)
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_segmentations_have_the_frequencies_of_the_algorithm(rate: float, bpe: Processor) -> None:
    ids = bpe.encode("lowest")
    expected = probabilities(bpe, tuple("▁lowest"), rate)
    assert math.isclose(sum(expected.values()), 1)
    assert len(expected) > 5
    # A new seed for each draw, because segmentations of a word are reused.
    dropout = BPEDropout(bpe, rate=rate)
    seen = Counter(tuple(bpe.id_to_piece(segment(dropout, [ids], seed=str(n))[0])) for n in range(1500))
    assert set(seen) <= set(expected)
    for outcome, p in expected.items():
        assert abs(seen[outcome] - 1500 * p) <= 4.5 * math.sqrt(1500 * p * (1 - p)) + 1, outcome


def test_a_frequent_word_keeps_varying(bpe: Processor) -> None:
    draws = [tuple(ids) for ids in segment(BPEDropout(bpe, rate=0.5), [bpe.encode("unrelated")] * 800)]
    assert 5 < len(set(draws)) <= SEGMENTATIONS
    counts = Counter(draws)
    for start in range(0, 800, 100):
        assert len(set(draws[start : start + 100])) > len(counts) / 2
    words = segment(BPEDropout(bpe, rate=0.5), [bpe.encode("unrelated " * 400)])
    assert len(set(" ".join(bpe.id_to_piece(words[0])).split(" ▁"))) > 5, "also within a sentence"


@pytest.mark.parametrize("block", [1, 7, 100])
def test_a_segmentation_depends_on_the_seed_and_the_number_only(block: int, bpe: Processor) -> None:
    ids = [*bpe.encode(LINES[:60]), [], *bpe.encode(LINES[60:100])]
    whole = segment(BPEDropout(bpe, rate=0.3), ids)
    dropout = BPEDropout(bpe, rate=0.3)
    segment(dropout, ids, seed="another")
    starts = list(range(0, len(ids), block))[::-1]
    parts = {start: segment(dropout, ids[start : start + block], first=start) for start in starts}
    assert [sentence for start in sorted(parts) for sentence in parts[start]] == whole


def test_the_same_seed_draws_the_same_in_every_process(bpe: Processor, tmp_path: Path) -> None:
    model = tmp_path / "spm.model"
    model.write_bytes(train_model())
    ids = bpe.encode(LINES[:100])
    script = f"""
import sentencepiece as spm
from heed.data.pairs.augmentation import BPEDropout
from tests.data.pairs.test_bpe_dropout import segment
bpe = spm.SentencePieceProcessor(model_file={str(model)!r})
print(segment(BPEDropout(bpe, rate=0.3), {ids}, seed="(1, 2)"))
"""
    dropout = BPEDropout(bpe, rate=0.3)
    segmented = segment(dropout, ids, seed="(1, 2)")
    command = [sys.executable, "-c", script]
    printed = forkserver.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert printed.strip() == str(segmented)
    assert segment(dropout, ids, seed="(1, 3)") != segmented


def test_a_unigram_model_is_refused() -> None:
    with pytest.raises(HeedError, match=r"unigram model: set tokenizer\.bpe_dropout=0"):
        BPEDropout(Processor(model_proto=train_model("unigram")), rate=0.1)
