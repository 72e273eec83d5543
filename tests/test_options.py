"""What settings may be, by the signatures they are for."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from heed.options import AtLeast1, Share, problems


def target(  # type: ignore[no-untyped-def]  # one has no type, as in other people's code
    steps: AtLeast1,
    share: Share,
    pair: tuple[float, float],
    kinds: Sequence[str],
    kind: Literal["a", "b"] = "a",
    more: Mapping[str, int] | None = None,
    anything: Any = None,
    untyped=None,
) -> None: ...


RIGHT: dict[str, Any] = {"steps": 1, "share": 0, "pair": [0.9, 1], "kinds": ["x"]}


@pytest.mark.parametrize(
    "more",
    [{}, {"kind": "b"}, {"more": None}, {"more": {"x": 1}}]
    + [{name: value} for name in ("anything", "untyped") for value in (1, 0.5, "x", None, [1], {"x": [1]}, True)],
)
def test_accepts_what_the_signature_allows(more: dict[str, Any]) -> None:
    assert problems(target, RIGHT | more, where="") == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "part.steps=0 must be a whole number of at least 1."),
        ({"steps": True}, "part.steps=true must be a whole number of at least 1."),
        ({"share": 1.0}, "part.share=1.0 must be a number of at least 0 and below 1."),
        ({"pair": [0.9]}, "part.pair=[0.9] must be a list of 2: a number, a number."),
        ({"kinds": "x"}, "part.kinds=x must be a list."),
        ({"kind": "c"}, "part.kind=c must be a or b."),
        ({"more": {"x": "y"}}, "part.more={'x': 'y'} must be a mapping or null."),
        ({"stepps": 1}, "part.stepps is unknown (did you mean part.steps?)."),
        ({"steps": "???"}, "part.steps must be given: it has no default."),
    ],
)
def test_says_what_is_wrong_and_where(wrong: dict[str, Any], said: str) -> None:
    assert problems(target, RIGHT | wrong, where="part.") == [said]


def test_names_what_is_missing_unless_somebody_will_add_it() -> None:
    del (given := dict(RIGHT))["pair"]
    assert problems(target, given, where="part.") == ["part.pair is missing."]
    assert problems(target, given, where="part.", later=["pair"]) == []
