"""Options are checked against the signature of the constructor they are for."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from heed.options import AtLeast1, Positive, UnitInterval, find_problems


def target(  # type: ignore[no-untyped-def]  # one parameter has no type, as in other libraries
    steps: AtLeast1,
    share: UnitInterval,
    rate: Positive,
    pair: tuple[float, float],
    kinds: Sequence[str],
    kind: Literal["a", "b"] = "a",
    more: Mapping[str, int] | None = None,
    limit: AtLeast1 | Literal["auto"] = "auto",
    anything: Any = None,
    untyped=None,
) -> None: ...


RIGHT: dict[str, Any] = {"steps": 1, "share": 0, "rate": 0.1, "pair": [0.9, 1], "kinds": ["x"]}


@pytest.mark.parametrize(
    "more",
    [{}, {"kind": "b"}, {"more": None}, {"more": {"x": 1}}, {"limit": 3}, {"limit": "auto"}]
    + [{name: value} for name in ("anything", "untyped") for value in (1, 0.5, "x", None, [1], {"x": [1]}, True)],
)
def test_accepts_what_the_signature_allows(more: dict[str, Any]) -> None:
    assert find_problems(target, RIGHT | more, where="") == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "part.steps=0 must be >= 1."),
        ({"steps": True}, "part.steps=true must be an integer >= 1."),
        ({"steps": "x"}, "part.steps=x must be an integer >= 1."),
        ({"share": 1.0}, "part.share=1.0 must be in [0, 1)."),
        ({"share": "x"}, "part.share=x must be a number in [0, 1)."),
        ({"share": float("nan")}, "part.share=nan must be in [0, 1) and finite."),
        ({"rate": 0}, "part.rate=0 must be > 0."),
        ({"rate": float("inf")}, "part.rate=inf must be > 0 and finite."),
        ({"pair": [0.9]}, "part.pair=[0.9] must be a list of 2: a number, a number."),
        ({"kinds": "x"}, "part.kinds=x must be a list."),
        ({"kind": "c"}, "part.kind=c must be a or b."),
        ({"more": {"x": "y"}}, "part.more={'x': 'y'} must be a mapping or null."),
        ({"limit": 0}, "part.limit=0 must be an integer >= 1 or auto."),
        ({"stepps": 1}, "part.stepps is unknown (did you mean part.steps?)."),
        ({"steps": "???"}, "part.steps must be given: it has no default."),
    ],
)
def test_messages_name_the_option_and_the_allowed_values(wrong: dict[str, Any], message: str) -> None:
    assert find_problems(target, RIGHT | wrong, where="part.") == [message]


def test_missing_options_are_listed_unless_they_are_passed_later() -> None:
    del (given := dict(RIGHT))["pair"]
    assert find_problems(target, given, where="part.") == ["part.pair is missing."]
    assert find_problems(target, given, where="part.", later=["pair"]) == []
