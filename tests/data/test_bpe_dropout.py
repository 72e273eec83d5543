"""BPE-dropout: as frequent as the algorithm says, the same in every process, and without dropout BPE."""

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


def learn(folder: Path, kind: str = "bpe", size: int = 330) -> Path:
    proto = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=proto, model_type=kind, vocab_size=size, byte_fallback=True,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "spm.model").write_bytes(proto.getvalue())
    return folder / "spm.model"


def processor(model: Path) -> spm.SentencePieceProcessor:
    return spm.SentencePieceProcessor(model_file=str(model))


@pytest.mark.parametrize("size", [300, 330, 360])
def test_without_dropout_it_is_bpe(size: int, tmp_path: Path) -> None:
    bpe = processor(learn(tmp_path, size=size))
    lines = [
        *LINES,
        "",
        "unknown words: 漢字 in the newest wellness",
        "  spaces  everywhere ",
        "lowlowlower",
        "lllooowww",
    ]
    ids = bpe.encode(lines)
    assert any(bpe.is_byte(id_) for sentence in ids for id_ in sentence)
    for dropout in (BPEDropout(bpe, rate=0.0, seed="1"), BPEDropout(bpe, rate=0.9, seed="1")):
        drawn = [dropout(sentence) for sentence in ids]
        assert (drawn == ids) is (dropout.rate == 0)
        assert bpe.decode(drawn) == bpe.decode(ids)


def probabilities(bpe: spm.SentencePieceProcessor, pieces: tuple[str, ...], rate: float) -> Counter[tuple[str, ...]]:
    """Provilkov et al. 2020, algorithm 1, over all outcomes of its coins."""
    known = {bpe.id_to_piece(id_): id_ for id_ in range(bpe.get_piece_size())}
    merges = [i for i in range(len(pieces) - 1) if pieces[i] + pieces[i + 1] in known]
    merges.sort(key=lambda i: (-bpe.get_score(known[pieces[i] + pieces[i + 1]]), i))
    found: Counter[tuple[str, ...]] = Counter()
    for number, i in enumerate(merges):
        # All better ones left out, this one not.
        after = (*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :])
        for outcome, p in probabilities(bpe, after, rate).items():
            found[outcome] += rate**number * (1 - rate) * p
    found[pieces] += rate ** len(merges)
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_segmentations_are_as_frequent_as_the_algorithm_says(rate: float, tmp_path: Path) -> None:
    bpe = processor(learn(tmp_path))
    ids = bpe.encode("lowest")
    expected = probabilities(bpe, tuple("▁lowest"), rate)
    assert math.isclose(sum(expected.values()), 1)
    assert len(expected) > 5
    # A fresh pool each time: words of one pool are not independent.
    seen = Counter(tuple(bpe.id_to_piece(BPEDropout(bpe, rate=rate, seed=str(n))(ids))) for n in range(1500))
    assert set(seen) <= set(expected)
    for outcome, p in expected.items():
        assert abs(seen[outcome] - 1500 * p) <= 4.5 * math.sqrt(1500 * p * (1 - p)) + 1, outcome


def test_frequent_words_go_on_varying(tmp_path: Path) -> None:
    bpe = processor(learn(tmp_path))
    dropout = BPEDropout(bpe, rate=0.5, seed="1")
    draws = [tuple(dropout(bpe.encode("unrelated"))) for _ in range(300)]
    assert len(set(draws[:16])) > 5
    assert set(draws[16:]) == set(draws[:16])
    assert len(set(draws[100:110])) > 2


def test_a_seed_is_a_draw_in_every_process(tmp_path: Path) -> None:
    model = learn(tmp_path)
    ids = processor(model).encode(LINES[:100])
    script = f"""
import sentencepiece as spm
from heed.data.bpe_dropout import BPEDropout
bpe = spm.SentencePieceProcessor(model_file={str(model)!r})
dropout = BPEDropout(bpe, rate=0.3, seed="(1, 2)")
print([dropout(sentence) for sentence in {ids}])
"""
    dropout = BPEDropout(processor(model), rate=0.3, seed="(1, 2)")
    drawn = [dropout(sentence) for sentence in ids]
    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert told.strip() == str(drawn)
    other = BPEDropout(processor(model), rate=0.3, seed="(1, 3)")
    assert [other(sentence) for sentence in ids] != drawn


def test_a_unigram_model_has_no_merges(tmp_path: Path) -> None:
    unigram = processor(learn(tmp_path, kind="unigram"))
    with pytest.raises(HeedError, match="unigram"):
        BPEDropout(unigram, rate=0.1, seed="1")
