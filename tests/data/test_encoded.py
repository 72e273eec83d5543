"""Encoded splits: ragged arrays of token ids, cached and memory-mapped."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from heed.data.encoded import EncodedSplit, Ragged, encode, encode_uncached
from hypothesis import given
from hypothesis import strategies as st

from heed.data import cache
from heed.data.tokenizer import TAGS, Tokenizer
from tests.data.corpora import train_tokenizer


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
    return train_tokenizer(dataset, tmp_path, joint=False)


def ids(split: EncodedSplit) -> list[tuple[list[int], list[int]]]:
    return [(split.src[row].tolist(), split.tgt[row].tolist()) for row in range(len(split))]


@pytest.mark.parametrize("block", [1, 7, 20_000])
def test_encode_returns_the_tokenizers_ids_for_every_block_size(
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


def test_another_text_or_tokenizer_is_another_cache_entry(
    dataset: Dataset, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    model = (tmp_path / "model") / "src.model"
    tokenizer.save(model.parent)
    other = Tokenizer(model.read_bytes(), None)
    reordered = dataset.select(range(len(dataset))[::-1])
    for split, encoder in ((dataset, tokenizer), (dataset, other), (reordered, tokenizer)):
        expected = zip(encoder.encode_src(split["src"]), encoder.encode_tgt(split["tgt"]), strict=True)
        assert ids(encode(split, encoder, tmp_path)) == list(expected)


def test_a_split_of_empty_sentences(tokenizer: Tokenizer, tmp_path: Path) -> None:
    split = encode(Dataset.from_dict({"src": ["", ""], "tgt": ["", ""]}), tokenizer, tmp_path)
    assert ids(split) == [([], []), ([], [])]


def test_both_directions_append_the_swapped_pairs(dataset: Dataset, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(dataset, tmp_path, tags=("<2de>", "<2en>"))
    into_de, into_en = TAGS
    assert tokenizer.tags == tuple(tokenizer.src_pieces([into_de, into_en])) == ("<2de>", "<2en>")
    one_way, both = (encode(dataset, tokenizer, tmp_path, both_directions=both) for both in (False, True))
    size = len(dataset)
    assert ids(both)[:size] == ids(one_way)
    assert len(both) == 2 * size
    for (src, tgt), (swapped_src, swapped_tgt) in zip(ids(both)[:size], ids(both)[size:], strict=True):
        assert swapped_src == ([into_en, *tgt] if tgt else [])
        assert src == ([into_de, *swapped_tgt] if swapped_tgt else [])


def test_sampled_ids_leave_no_files(dataset: Dataset, tokenizer: Tokenizer, tmp_path: Path) -> None:
    unsampled = encode(dataset, tokenizer, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    first, again = (encode_uncached(dataset, tokenizer.sampling(0.3, seed=(1, 2)), tmp_path) for _ in range(2))
    assert ids(first) == ids(again) != ids(unsampled)
    assert isinstance(first.src.values.base, np.memmap), "ids stay on disk"
    assert sorted(tmp_path.rglob("*")) == before
    assert tokenizer.decode_tgt([tgt for _, tgt in ids(first)]) == list(dataset["tgt"])
