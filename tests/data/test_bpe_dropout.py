"""BPE-dropout: frequencies of segmentations, reproducibility, and plain BPE at rate 0."""

import io
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece as spm

from heed.data.bpe_dropout import BPEDropout
from heed.errors import HeedError

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
        dropout = BPEDropout(bpe, rate=rate, seed="1")
        segmented = [dropout(sentence) for sentence in ids]
        assert (segmented == ids) is (rate == 0)
        assert bpe.decode(segmented) == bpe.decode(ids)


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
    # A new object for each draw, because segmentations of frequent words are reused.
    seen = Counter(tuple(bpe.id_to_piece(BPEDropout(bpe, rate=rate, seed=str(n))(ids))) for n in range(1500))
    assert set(seen) <= set(expected)
    for outcome, p in expected.items():
        assert abs(seen[outcome] - 1500 * p) <= 4.5 * math.sqrt(1500 * p * (1 - p)) + 1, outcome


def test_a_frequent_word_keeps_varying(bpe: Processor) -> None:
    dropout = BPEDropout(bpe, rate=0.5, seed="1")
    draws = [tuple(dropout(bpe.encode("unrelated"))) for _ in range(300)]
    assert len(set(draws[:16])) > 5
    assert set(draws[16:]) == set(draws[:16])
    assert len(set(draws[100:110])) > 2


def test_the_same_seed_draws_the_same_in_every_process(bpe: Processor, tmp_path: Path) -> None:
    model = tmp_path / "spm.model"
    model.write_bytes(train_model())
    ids = bpe.encode(LINES[:100])
    script = f"""
import sentencepiece as spm
from heed.data.bpe_dropout import BPEDropout
bpe = spm.SentencePieceProcessor(model_file={str(model)!r})
dropout = BPEDropout(bpe, rate=0.3, seed="(1, 2)")
print([dropout(sentence) for sentence in {ids}])
"""
    dropout = BPEDropout(bpe, rate=0.3, seed="(1, 2)")
    segmented = [dropout(sentence) for sentence in ids]
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == str(segmented)
    other_seed = BPEDropout(bpe, rate=0.3, seed="(1, 3)")
    assert [other_seed(sentence) for sentence in ids] != segmented


def test_a_unigram_model_is_refused() -> None:
    with pytest.raises(HeedError, match=r"unigram model: set tokenizer\.sampling=0"):
        BPEDropout(Processor(model_proto=train_model("unigram")), rate=0.1, seed="1")
