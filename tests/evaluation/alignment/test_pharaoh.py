"""Alignment files: written links are read back, and malformed lines are named."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.errors import HeedError
from heed.evaluation.alignment import Gold, format_pharaoh, parse_pharaoh

LINKS = st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(LINKS, LINKS), max_size=4))
def test_written_links_are_read_back(pairs: list[tuple[Any, Any]]) -> None:
    golds = [Gold(frozenset(sure), frozenset(sure | possible)) for sure, possible in pairs]
    lines = [format_pharaoh(gold) for gold in golds]
    assert parse_pharaoh(lines, [(10, 10)] * len(golds), name="x", first_index=0, drop_outside=False) == golds


def test_links_may_be_possible_and_counted_from_1() -> None:
    lines, lengths = ["1-1 2p2 3?1 2-2", ""], [(3, 2), (1, 1)]
    first, second = parse_pharaoh(lines, lengths, name="x", first_index=1, drop_outside=False)
    assert first == Gold(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(0, 0), (1, 1), (2, 0)}))
    assert second == Gold(frozenset(), frozenset())
    one = frozenset({(0, 0)})
    assert parse_pharaoh(["0-0 12-16"], [(3, 2)], name="x", first_index=0, drop_outside=True) == [Gold(one, one)]


@pytest.mark.parametrize(
    ("lines", "first_index", "message"),
    [
        (
            ["0-0", "0-0 4-1"],
            0,
            "Line 2 of g.talp: 4-1 is out of range. The source has 3 words and the target 2, counted",
        ),
        (["0-0", "2-2"], 0, "Line 2 of g.talp: 2-2 is out of range"),
        (["1-0", ""], 1, "Line 1 of g.talp: 1-0 is out of range. .* counted from 1"),
        (["0-0", "0-"], 0, "Line 2 of g.talp: '0-' is not a link"),
        (["0:0", ""], 0, "Line 1 of g.talp: '0:0' is not a link"),
        (["0-0"], 0, "g.talp has 1 lines for 2 sentence pairs"),
    ],
)
def test_malformed_lines_are_named(lines: list[str], first_index: int, message: str) -> None:
    with pytest.raises(HeedError, match=message):
        parse_pharaoh(lines, [(4, 4), (3, 2)], name="g.talp", first_index=first_index, drop_outside=False)
