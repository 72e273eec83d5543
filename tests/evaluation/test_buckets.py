"""Sentence buckets: examples counted by hand, and each sentence has one bucket."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.errors import HeedError
from heed.evaluation.buckets import bucketings, count_words, read_counts, write_counts

SOURCES = ["The dog sleeps.", "A zyx and a qux saw Anna's dog!", "", "dog " * 12]


def test_buckets_by_hand() -> None:
    counts = {"the": 5000, "dog": 9, "sleeps": 10, "a": 100, "and": 100, "saw": 1, "anna's": 3, "zyx": 0}
    references = ["Der Hund schläft.", "Zyx und qux sahen Annas dog.", "", "dog dog dog Hund dog"]
    found = bucketings(SOURCES, references, tags=["b", "a", "b", "b"], word_counts=counts)
    assert {bucketing.title: bucketing.buckets for bucketing in found} == {
        "Source length": {"0–9": [0, 1, 2], "10–19": [3]},
        "Phenomenon": {"a": [1], "b": [0, 2, 3]},
        "Rare words": {"0": [1], "1–9": [0, 3]},
        "Unknown words": {"0": [0, 2, 3], "2–3": [1]},
        "Copied words": {"0": [0, 2], "2–3": [1], "4 or more": [3]},
    }
    assert [bucketing.title for bucketing in bucketings(SOURCES, references)] == ["Source length", "Copied words"]


@given(st.lists(st.text("ab .")))
def test_every_sentence_is_in_one_length_bucket(sources: list[str]) -> None:
    rows = [row for bucket in bucketings(sources, sources)[0].buckets.values() for row in bucket]
    assert sorted(rows) == list(range(len(sources)))


def test_word_counts_are_read_back(tmp_path: Path) -> None:
    counts = count_words(["The dog, the cat.", "A dog"], {"dog", "the", "größe"})
    assert counts == {"dog": 2, "größe": 0, "the": 2}
    write_counts(tmp_path / "counts.tsv", counts)
    assert read_counts(tmp_path / "counts.tsv") == counts
    (tmp_path / "counts.tsv").write_text("the\t10\ndog\n")
    with pytest.raises(HeedError, match=r"counts\.tsv is damaged"):
        read_counts(tmp_path / "counts.tsv")
