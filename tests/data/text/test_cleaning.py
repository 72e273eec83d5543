"""Cleaning rules: what each drops and keeps, and the report."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.characters import normalized
from heed.data.text import source as module
from heed.data.text.cleaning import RULES, Cleaning, CleaningReport, Rules
from heed.data.text.source import Sentences
from heed.errors import HeedError
from tests.data.texts import NO_RULES, sentence_pairs, training_text

ON: dict[str, Any] = NO_RULES | {
    "drop_empty": True,
    "drop_placeholders": True,
    "max_chars": 30,
    "max_ratio": 2.0,
    "drop_leaked": True,
    "drop_duplicates": True,
}

Pairs = list[tuple[str, str]]


def parallel(pairs: Sequence[tuple[str, str]]) -> Sentences:
    return Sentences([src for src, _ in pairs], [tgt for _, tgt in pairs])


def clean(
    pairs: Pairs, rules: dict[str, Any], *, held_out: Sequence[tuple[str, str]] = (), at_most: int | None = None
) -> tuple[Pairs, CleaningReport]:
    with TemporaryDirectory() as cache:
        text = training_text(parallel(pairs), Path(cache), rules=rules, held_out=[parallel(held_out)], at_most=at_most)
        return sentence_pairs(text), text.clean.report


@pytest.mark.parametrize(
    ("rule", "rules", "dropped", "kept"),
    [
        (
            "empty",
            {"drop_empty": True},
            [("", "x"), ("x", " \u00a0\t"), ("", ""), ("x", "\ufeff\u200b")],
            [("x", "y"), ("x", ".")],
        ),
        (
            "placeholder",
            {"drop_placeholders": True},
            [("A dog.", "@@"), ("…", "Ja."), ("-", "７"), ("", "word")],
            [("?!", "!?"), ("7", "sieben"), ("漢", "字"), ("٣", "3"), ("ا", "a")],
        ),
        ("too long", {"max_chars": 4}, [("abcde", "x"), ("x", "漢字漢字漢")], [("abcd", "漢字漢字"), (" abcd ", "x")]),
        (
            "length ratio",
            {"max_ratio": 2.0},
            [("a" * 31, "b" * 10), ("a" * 10, "b" * 31)],
            [("a" * 30, "b" * 10), ("OK.", "In Ordnung."), ("Good morning, all.", "大家早上好。")],
        ),
        ("duplicate", {"drop_duplicates": True}, [], [("a", "b"), ("a", "c"), ("c", "b"), ("A", "b")]),
    ],
)
def test_a_single_rule(rule: str, rules: dict[str, Any], dropped: Pairs, kept: Pairs) -> None:
    for pairs in (dropped + kept, kept + dropped):
        result, report = clean(pairs, NO_RULES | rules)
        assert result == kept
        assert report.dropped == {name: len(dropped) if name == rule else 0 for name in report.dropped}
        assert [(pair.src, pair.tgt) for pair in report.examples[rule]] == dropped[:3]
    assert clean(dropped + kept, NO_RULES)[0] == dropped + kept, "without rules, nothing is dropped"


def test_the_rule_that_dropped_each_pair(tmp_path: Path) -> None:
    """Pairs are compared as cleaning compares them: without white space at their ends, for instance."""
    rule_of = {
        ("A dog.", "Ein Hund."): None, ("x", " \u00a0"): "empty", ("The  cat.", "Die Katze."): "leaked",
        ("A  dog.", "Ein Hund."): "duplicate", ("caf\u00e9", "@@\u200b"): "placeholder", ("a", "b" + " " * 40): None,
    }  # fmt: skip
    pairs = parallel([*rule_of])
    text = training_text(pairs, tmp_path, rules=ON, held_out=[parallel([("The cat.", "")])])
    dropped = text.clean.dropped(pairs, 0)
    assert [dropped.get(row) for row in range(len(rule_of))] == [*rule_of.values()]


def test_the_first_of_duplicates_is_kept() -> None:
    pairs = [("a", "b"), ("a", "c"), ("a", "b"), (" a", "b "), ("a", "c")]
    kept, report = clean(pairs, NO_RULES | {"drop_duplicates": True})
    assert kept == [("a", "b"), ("a", "c")]
    assert [pair.number for pair in report.examples["duplicate"]] == [3, 4, 5]


def test_leaked_sources_are_dropped_whatever_their_target() -> None:
    pairs = [("Thanks.", "Danke."), ("Thanks. ", "Vielen Dank."), ("thanks.", "danke"), ("Hello.", "Hallo.")]
    kept, report = clean(pairs, NO_RULES | {"drop_leaked": True}, held_out=[("Thanks.", "Danke."), ("Bye.", "Hallo.")])
    assert kept == [("thanks.", "danke"), ("Hello.", "Hallo.")]
    assert report.dropped["leaked"] == 2


INVISIBLE = {
    "zero-width space": "Das Café ist alt.\u200b",
    "byte order mark": "\ufeffDas Café ist alt.",
    "soft hyphen": "Das Ca\u00adfé ist alt.",
    "no-break space": "Das Café ist\u00a0alt.",
    "two spaces": "Das  Café ist alt.",
    "decomposed": "Das Cafe\u0301 ist alt.",
}
"""What a reader of "Das Café ist alt." cannot see."""


@pytest.mark.parametrize("sentence", INVISIBLE.values(), ids=INVISIBLE)
def test_invisible_differences_hide_neither_leaks_nor_duplicates(sentence: str) -> None:
    seen = "Das Café ist alt."
    for source, other in ((seen, sentence), (sentence, seen)):
        pairs = [(source, "The café is old."), ("Ja.", "Yes.")]
        assert clean(pairs, NO_RULES | {"drop_leaked": True}, held_out=[(other, "")])[0] == pairs[1:]
        pairs = [(source, "Yes."), (other, "Yes."), ("Yes.", other), ("Yes.", source)]
        assert clean(pairs, NO_RULES | {"drop_duplicates": True})[0] == pairs[::2], "the text itself is unchanged"


def test_texts_with_invisible_differences_are_different_texts(tmp_path: Path) -> None:
    """Their token ids are not the same, so one must not be taken from the cache for the other."""
    texts = [
        training_text(parallel([("Ja.", "Yes."), (source, "No.")]), tmp_path) for source in ("Nein.", "Nein.\u200b")
    ]
    assert texts[0].clean.digest != texts[1].clean.digest


sentences = st.text(alphabet="ab@ 漢\u00a0\u200b", max_size=40)


@pytest.mark.slow
@given(
    pairs=st.lists(st.tuples(sentences, sentences), min_size=1, max_size=60),
    held_out=st.lists(st.tuples(sentences, sentences), max_size=5),
    at_most=st.none() | st.integers(1, 20),
)
def test_all_rules_agree_with_a_loop_over_the_pairs(pairs: Pairs, held_out: Pairs, at_most: int | None) -> None:
    expected, seen = [], set()
    for pair in pairs:
        src, tgt = map(normalized, pair)
        lengths = len(src), len(tgt)
        has_word = [any(letter.isalnum() for letter in side) for side in (src, tgt)]
        if (
            min(lengths) > 0
            and has_word[0] == has_word[1]
            and max(lengths) <= 30
            and max(lengths) + 10 <= 2.0 * (min(lengths) + 10)
            and src not in {normalized(source) for source, _ in held_out}
            and (src, tgt) not in seen
        ):
            seen.add((src, tgt))
            expected.append(pair)
    kept, report = clean(pairs, ON, held_out=held_out, at_most=at_most)
    if at_most is None or len(expected) <= at_most:
        assert kept == expected
    else:
        remaining = iter(expected)
        assert len(kept) == at_most
        assert all(pair in remaining for pair in kept), "a subsequence"
    assert (report.total, report.kept) == (len(pairs), len(kept))


def test_the_sizes_of_blocks_and_runs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"word {n % 70}", f"Wort {n % 35}" if n % 9 else "@@") for n in range(200)]
    whole = clean(pairs, ON, at_most=40)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert clean(pairs, ON, at_most=40) == whole


def test_pairs_below_the_score_are_dropped() -> None:
    block = Sentences(["a", "b", "c"], ["x", "y", "z"], scores=[0.5, 0.49, math.nan])
    nothing = np.zeros(0, np.uint64)
    violated = Rules(Cleaning(**NO_RULES), 0.5, nothing, False, None).violations(block)
    assert [RULES[rule] if rule < len(RULES) else None for rule in violated] == [None, "low score", "low score"]
    assert set(Rules(Cleaning(**NO_RULES), None, nothing, False, None).violations(block)) == {len(RULES)}


def test_the_report_as_text() -> None:
    _, report = clean([("A fine dog.", "@@"), ("a", "b"), ("a", "b")], ON)
    first, placeholder, duplicate = str(report).splitlines()
    assert first == "training pairs: 3 read, 1 kept"
    assert placeholder.split() == ["placeholder", "1", "1:", "A", "fine", "dog.", "‖", "@@"]
    assert duplicate.split()[:3] == ["duplicate", "1", "3:"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"max_chars": 0}, "data.cleaning.max_chars=0 must be an integer >= 1 or null."),
        ({"max_ratio": 1.0}, "data.cleaning.max_ratio=1.0 must be a number > 1 or null."),
    ],
)
def test_rules_out_of_range_are_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(HeedError, match=re.escape(message)):
        Cleaning(**(ON | rule))
