"""Contrastive accuracy and challenge set files."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from heed.comparison.challenge import (
    Accuracy,
    ContrastivePair,
    built_in_challenge,
    contrastive_accuracy,
    read_challenge,
)
from heed.errors import HeedError
from heed.evaluation.words import split_punctuation
from heed.inference.translator import Translator


class LengthScorer:
    """A translator whose log-probability is minus the number of characters."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        return [-float(len(target)) for target in targets]


def test_accuracy_counts_wins_by_tag_and_ties_as_wrong() -> None:
    contrasts = [
        ContrastivePair("s", good="a", bad="bb", tag="x"),
        ContrastivePair("s", good="aa", bad="b", tag="x"),
        ContrastivePair("s", good="a", bad="b", tag="y"),
    ]
    found = contrastive_accuracy(cast(Translator, LengthScorer()), contrasts)
    assert found == {"x": Accuracy(1, 2), "y": Accuracy(0, 1)}
    assert found["x"].fraction == 0.5


def test_a_challenge_set_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"src": "ä\u2028", "good": "b", "bad": "c", "tag": "d", "more": 1}\n\n', encoding="utf-8")
    assert read_challenge(path) == [ContrastivePair("ä\u2028", "b", "c", "d")]
    compressed = tmp_path / "c.jsonl.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_challenge(compressed) == read_challenge(path)


def test_the_built_in_challenge_set_has_twins_of_every_phenomenon() -> None:
    contrasts = built_in_challenge(4)
    tags = ["pronoun", "sense", "roles", "far", "agreement", "negation"]
    assert [contrast.tag for contrast in contrasts] == [tag for tag in tags for _ in range(4)]
    for one, twin in zip(contrasts[::2], contrasts[1::2], strict=True):
        assert one.src != twin.src
    pronoun = contrasts[0]
    assert pronoun.antecedent is not None
    words = split_punctuation(pronoun.src)
    assert {name: words[position] for name, position in pronoun.antecedent.items()} == {
        "pronoun": "it", "right": "cow", "wrong": "river",
    }  # fmt: skip
    assert len(built_in_challenge(1000)) == 6 * 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"src": "a", "good": "b", "bad": "c", "tag": "d"}\n{"src": "a"}\n', "Line 2 of .* is not a contrast"),
        ('{"src": "a", "good": "b", "bad": 3, "tag": "d"}\n', "Line 1 of .* is not a contrast"),
        ("[1]\n", "Line 1 of .* is not a contrast"),
        ("\n", "has no contrasts"),
        (b"\xff\n", "cannot be read"),
    ],
)
def test_malformed_challenge_sets_are_errors(tmp_path: Path, text: Any, message: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(HeedError, match=message):
        read_challenge(path)
