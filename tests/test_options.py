"""Options are checked against the signature of the constructor they are for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Interval

from heed.errors import HeedError
from heed.options import (
    AtLeast1,
    Positive,
    UnitInterval,
    describe_type,
    find_problems,
    from_plain,
    raise_problems,
    validated,
)


def target(  # type: ignore[no-untyped-def]  # one parameter has no type, as in other libraries
    steps: AtLeast1,
    share: UnitInterval,
    rate: Positive,
    pair: tuple[float, float],
    kinds: Sequence[str],
    kind: Literal["a", "b"] = "a",
    more: Mapping[str, int] | None = None,
    limit: AtLeast1 | Literal["auto"] = "auto",
    range: tuple[int, ...] | None = None,
    path: Path = Path(),
    anything: Any = None,
    untyped=None,
) -> None: ...


RIGHT: dict[str, Any] = {"steps": 1, "share": 0, "rate": 0.1, "pair": [0.9, 1], "kinds": ["x"]}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"kind": "b"},
        {"more": None},
        {"more": {"x": 1}},
        {"limit": 3},
        {"limit": "auto"},
        {"limit": 10**400},
        {"range": [1, 2]},
    ]
    + [{"path": Path("x")}, {"kinds": ("x", "y")}, {"share": 0.999}]
    + [{name: value} for name in ("anything", "untyped") for value in (1, 0.5, "x", None, [1], {"x": [1]}, True)],
)
def test_accepts_what_the_signature_allows(more: dict[str, Any]) -> None:
    assert find_problems(target, RIGHT | more, where="") == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "part.steps=0 must be an integer >= 1."),
        ({"steps": True}, "part.steps=true must be an integer >= 1."),
        ({"steps": "x"}, "part.steps=x must be an integer >= 1."),
        ({"share": 1.0}, "part.share=1.0 must be a number in [0, 1)."),
        ({"share": "x"}, "part.share=x must be a number in [0, 1)."),
        ({"share": float("nan")}, "part.share=nan must be a number in [0, 1) and finite."),
        ({"rate": 0}, "part.rate=0 must be a number > 0."),
        ({"rate": float("inf")}, "part.rate=inf must be a number > 0 and finite."),
        ({"pair": [0.9]}, "part.pair=[0.9] must be a list of 2: a number, a number."),
        ({"kinds": "x"}, "part.kinds=x must be a list."),
        ({"kind": "c"}, "part.kind=c must be a or b."),
        ({"more": {"x": "y"}}, "part.more={'x': 'y'} must be a mapping or null."),
        ({"more": {"x": float("nan")}}, "part.more={'x': nan} must be a mapping or null."),
        ({"pair": [0.9, True]}, "part.pair=[0.9, True] must be a list of 2: a number, a number."),
        ({"rate": "9" * 300}, f"part.rate={'9' * 200}… must be a number > 0."),
        ({"steps": -(10**400)}, "part.steps=a number of 1,329 bits must be an integer >= 1."),
        ({"range": [1, "x"]}, "part.range=[1, 'x'] must be a list or null."),
        ({"path": "x"}, "part.path=x must be a Path."),
        ({1: 2}, "part.1 is unknown."),
        ({"\udc80": 2}, "part.\udc80 is unknown."),
        ({"limit": 0}, "part.limit=0 must be an integer >= 1 or auto."),
        ({"stepps": 1}, "part.stepps is unknown (did you mean part.steps?)."),
        ({"steps": "???"}, "part.steps must be given: it has no default."),
    ],
)
def test_messages_name_the_option_and_the_allowed_values(wrong: dict[str, Any], message: str) -> None:
    assert find_problems(target, RIGHT | wrong, where="part.") == [message]


def test_missing_options_are_listed_unless_they_are_passed_later() -> None:
    del (given := dict(RIGHT))["pair"]
    assert find_problems(target, given, where="part.") == ["part.pair must be given: it has no default."]
    assert find_problems(target, given, where="part.", later=["pair"]) == []


def test_constructors_of_other_libraries() -> None:
    """They may take any keyword, and annotate with names that exist for type checkers only."""

    def foreign(a: "Nowhere", b: int = 1, **more: Any) -> None: ...  # type: ignore[name-defined]

    assert find_problems(foreign, {"a": 1, "c": 2}, where="") == []
    assert find_problems(foreign, {"c": 2}, where="") == ["a must be given: it has no default."]

    class WithoutConstructor: ...

    foreign.__module__ = "not_imported"
    assert find_problems(foreign, {"a": 1}, where="") == []
    assert find_problems(WithoutConstructor, {}, where="") == []


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(ge=0, le=10), "in [0, 10]"),
        (Interval(gt=0, lt=1), "in (0, 1)"),
        (Interval(gt=0), "> 0"),
        (Interval(ge=1000), ">= 1000"),
        (Interval(lt=1), "< 1"),
        (Interval(le=1), "<= 1"),
    ],
)
def test_ranges_are_written_as_intervals(interval: Interval, text: str) -> None:
    assert describe_type(Annotated[int, interval]) == f"an integer {text}"


@validated("inner.")
@dataclass(kw_only=True)
class Inner:
    low: int
    high: int

    def __post_init__(self) -> None:
        raise_problems(self._contradictions())

    def _contradictions(self) -> Iterator[str]:
        if self.low > self.high:
            yield "inner.low is above inner.high."
        if self.low % 2:
            yield "inner.low is odd."


@dataclass(kw_only=True)
class Outer:
    size: AtLeast1
    inner: Inner


def test_constructors_check_their_arguments_before_contradictions() -> None:
    assert Inner(low=2, high=3).low == 2
    with pytest.raises(HeedError) as wrong:
        Inner(low=True, hihg=1)  # type: ignore[call-arg]
    assert str(wrong.value).splitlines() == [
        "inner.low=true must be an integer.",
        "inner.hihg is unknown (did you mean inner.high?).",
        "inner.high must be given: it has no default.",
    ]
    with pytest.raises(HeedError) as wrong:
        Inner(low=3, high=2)
    assert str(wrong.value).splitlines() == ["inner.low is above inner.high.", "inner.low is odd."]


def test_nested_dataclasses_report_all_problems() -> None:
    assert from_plain(Outer, {"size": 1, "inner": {"low": 0, "high": 1}}, where="") == Outer(
        size=1, inner=Inner(low=0, high=1)
    )
    with pytest.raises(HeedError) as wrong:
        from_plain(Outer, {"size": 0, "inner": {"low": 3, "high": 2}}, where="")
    assert str(wrong.value).splitlines() == [
        "inner.low is above inner.high.",
        "inner.low is odd.",
        "size=0 must be an integer >= 1.",
    ]
    with pytest.raises(HeedError, match=r"inner=3 must be a mapping\."):
        from_plain(Outer, {"size": 1, "inner": 3}, where="")
