"""Contrastive accuracy and challenge set files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from heed.comparison.challenge import Accuracy, contrastive_accuracy, read_challenge
from heed.errors import HeedError
from heed.inference.translator import Translator
from heed.synthetic import ContrastivePair


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
