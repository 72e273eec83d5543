"""Ids in flat memory are the tokenizer's ids, whatever the block size, and are written once."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from heed.data import cache
from heed.data.encoded import EncodedSplit, Ragged, encode, encode_once
from heed.data.tokenizer import Tokenizer, TokenizerTrainer
from heed.errors import HeedError


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=12))
def test_ragged_is_a_list_of_lists(sequences: list[list[int]]) -> None:
    ragged = Ragged.of(sequences)
    assert len(ragged) == len(sequences)
    assert ragged.lengths.tolist() == [len(sequence) for sequence in sequences]
    assert [sequence.tolist() for sequence in ragged] == sequences
    assert ragged.values.dtype == np.int32
    for outside in (len(sequences), -1):
        with pytest.raises(IndexError):
            ragged[outside]


@pytest.fixture
def dataset() -> Dataset:
    return Dataset.from_dict(
        {
            "src": [f"the dog number {n} sleeps" for n in range(50)] + ["", "漢 😀"],
            "tgt": [f"der Hund Nummer {n * n} schläft" for n in range(50)] + ["", "漢"],
        }
    )


@pytest.fixture
def tokenizer(dataset: Dataset, tmp_path: Path) -> Tokenizer:
    return TokenizerTrainer(
        kind="bpe",
        joint=False,
        vocab_size="auto",
        byte_fallback=True,
        character_coverage=1.0,
        normalization="identity",
        max_sentences=1000,
        sampling=0.0,
    ).train(dataset, tmp_path)


def ids(split: EncodedSplit) -> list[tuple[list[int], list[int]]]:
    return [(split.src[row].tolist(), split.tgt[row].tolist()) for row in range(len(split))]


@pytest.mark.parametrize("block", [1, 7, 20_000])
def test_encode_gives_the_tokenizers_ids(
    block: int, dataset: Dataset, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BLOCK", block)
    expected = list(zip(tokenizer.encode_src(dataset["src"]), tokenizer.encode_tgt(dataset["tgt"]), strict=True))
    for cached in (False, True):
        split = encode(dataset, tokenizer, tmp_path)
        assert ids(split) == expected, f"cached: {cached}"
        assert isinstance(split.src.values.base, np.memmap), "ids stay on disk"
        assert type(split.src[0]) is np.ndarray
        assert not split.src.values.flags.writeable
    (folder,) = [path for path in (tmp_path / "encoded").iterdir() if path.is_dir()]
    assert np.array_equal(np.load(folder / "tgt.npy"), split.tgt.values), "plain .npy files"


def test_the_cache_knows_text_and_tokenizer(dataset: Dataset, tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = (tmp_path / "model") / "src.model"
    tokenizer.save(model.parent)
    other = Tokenizer(model.read_bytes(), None)
    reordered = dataset.select(range(len(dataset))[::-1])
    for split, encoder in ((dataset, tokenizer), (dataset, other), (reordered, tokenizer)):
        expected = zip(encoder.encode_src(split["src"]), encoder.encode_tgt(split["tgt"]), strict=True)
        assert ids(encode(split, encoder, tmp_path)) == list(expected)


def test_a_split_without_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    split = encode(Dataset.from_dict({"src": ["", ""], "tgt": ["", ""]}), tokenizer, tmp_path)
    assert ids(split) == [([], []), ([], [])]


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.build_once(tmp_path / "a" / "b", fails)
    assert [path.name for path in (tmp_path / "a").iterdir()] in ([], ["b.lock"])
    assert cache.build_once(tmp_path / "a" / "b", lambda path: path.write_text("whole") and None).read_text() == "whole"


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeedError, match=r"cannot be made .*set cache_dir=DIR"):
        cache.build_once(tmp_path / "file" / "x" / "y", lambda path: path.mkdir())


def test_both_directions_follow_each_other(dataset: Dataset, tmp_path: Path) -> None:
    tokenizer = TokenizerTrainer(
        kind="bpe",
        joint=True,
        vocab_size="auto",
        byte_fallback=True,
        character_coverage=1.0,
        normalization="identity",
        max_sentences=1000,
        sampling=0.0,
    ).train(dataset, tmp_path, tags=("<2de>", "<2en>"))
    into_de, into_en = 4, 5
    assert tokenizer.tags == tuple(tokenizer.src_pieces([into_de, into_en])) == ("<2de>", "<2en>")
    one_way, both = (encode(dataset, tokenizer, tmp_path, both_directions=both) for both in (False, True))
    assert ids(both)[:52] == ids(one_way)
    assert len(both) == 104
    for (src, tgt), (turned_src, turned_tgt) in zip(ids(both)[:52], ids(both)[52:], strict=True):
        assert turned_src == ([into_en, *tgt] if tgt else [])
        assert src == ([into_de, *turned_tgt] if turned_tgt else [])


def test_drawn_ids_leave_no_files(dataset: Dataset, tokenizer: Tokenizer, tmp_path: Path) -> None:
    first, again = (encode_once(dataset, tokenizer.sampling(0.3, seed=(1, 2)), tmp_path) for _ in range(2))
    assert ids(first) == ids(again) != ids(encode(dataset, tokenizer, tmp_path))
    assert isinstance(first.src.values.base, np.memmap), "ids stay on disk"
    assert not list((tmp_path / "encoded").glob("drawn*"))
    assert tokenizer.decode_tgt([tgt for _, tgt in ids(first)]) == list(dataset["tgt"])
