"""Hostile input to the real commands. The docstring of `fuzz` says what is checked and how to run more cases."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.reliability.fuzz.campaign import FaultError, explore
from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.execute import MARK, Outcome, outcome
from tests.reliability.fuzz.home import build_home
from tests.reliability.fuzz.options import valid_values
from tests.reliability.fuzz.oracle import verdict
from tests.reliability.fuzz.surfaces import OPTIONS, SURFACES, Surface

pytestmark = pytest.mark.reliability

LIMIT = 60
"""Seconds per case."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_home(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_hostile_input(home: Path, surface: Surface, pytestconfig: pytest.Config) -> None:
    found: list[FaultError] = []
    cases = round(pytestconfig.getoption("fuzz_cases") * surface.share)
    tally = explore(surface, home, cases=cases, limit=LIMIT, report=found.append)
    print(f"{surface.name}: {tally}")
    assert not found, "\n\n".join(map(str, found))
    # heed must not refuse everything: all cases that are valid by construction succeed, and there are enough of them.
    assert tally.succeeded == tally.valid >= int(surface.valid * tally.cases)


REFUSAL = b"heed: in/rnn holds no model: name another folder.\n"
TRACEBACK = (
    b'Traceback (most recent call last):\n  File "/x/src/heed/cli/__init__.py", line 7, in main\n'
    b'  File "/x/src/heed/translator.py", line 9, in score\nKeyError: 3\n'
)
VERDICTS: list[tuple[int | None, bytes, str, bytes, str | None]] = [
    # exit status, stderr, a file that was written, its content; the verdict
    (0, b"", "results.json", b"{}", None),
    (2, REFUSAL, "out.html", b"", None),
    (130, b"", "out.html", b"", None),
    (1, TRACEBACK, "out.html", b"", "exit status 1: KeyError at heed/translator.py:score"),
    (2, TRACEBACK + REFUSAL, "out.html", b"", "exit status 2 with a traceback: KeyError at heed/translator.py:score"),
    (2, b"", "out.html", b"", "exit status 2 without a readable sentence"),
    (2, b"heed: " + b"x" * 10_000, "out.html", b"", "exit status 2 without a readable sentence"),
    (-11, b"", "out.html", b"", "exit status -11: outside heed"),
    (None, b"", "out.html", b"", "no end within the limit: outside heed"),
    (2, REFUSAL, "model.safetensors.partial", b"", "a partial file was left (exit status 2)"),
    (0, b"", "results.json", b'{"loss": NaN}', "results.json is not readable (exit status 0)"),
    (0, b"", "config.yaml", b"a: [", "config.yaml is not readable (exit status 0)"),
    (0, b"", MARK, b"", "code of a file was executed"),
]


@pytest.mark.parametrize(("status", "stderr", "file", "content", "expected"), VERDICTS)
def test_verdict_detects_each_fault(
    tmp_path: Path, status: int | None, stderr: bytes, file: str, content: bytes, expected: str | None
) -> None:
    (tmp_path / file).write_bytes(content)
    seen = Outcome(status, b"", stderr, 0.1, tmp_path, (tmp_path / file,))
    assert verdict(Case("heed", ("translate",)), seen) == expected


def test_verdict_requires_valid_cases_to_succeed(tmp_path: Path) -> None:
    seen = Outcome(2, b"", REFUSAL, 0.1, tmp_path, ())
    assert verdict(Case("heed", ("translate",), valid=True), seen) == (
        "a valid case was refused: in/rnn holds no model: name another folder."
    )


GOOD = Case("heed", ("translate", "--model", "in/rnn"), stdin=((b"a b\n", 3),), valid=True)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(GOOD, id="file"),
        pytest.param(replace(GOOD, stdin=None), id="no stdin", marks=pytest.mark.full),
        pytest.param(replace(GOOD, stdout="full"), id="full", marks=pytest.mark.full),
    ],
)
def test_forked_process_behaves_like_a_new_interpreter(home: Path, case: Case) -> None:
    with (
        outcome(case, home, limit=LIMIT) as forked,
        outcome(case, home, limit=LIMIT, real=True) as spawned,
    ):
        assert (forked.status, forked.stdout) == (spawned.status, spawned.stdout)
        assert forked.stderr.splitlines()[-1:] == spawned.stderr.splitlines()[-1:]
        if case == GOOD:
            assert (forked.status, forked.stdout.count(b"\n"), forked.written) == (0, 3, ())
            assert b"Traceback" not in forked.stderr


def test_case_over_the_time_limit_is_killed(home: Path) -> None:
    with outcome(GOOD, home, limit=0.001) as seen:
        assert seen.status is None


def test_case_can_be_parsed_from_its_text() -> None:
    damages = (("flip", "in/ä.xx", (3, 255)), ("write", "in/a", (b"\xff", 2)), ("edit", "config.yaml", (0, 1), ".nan"))
    case = Case("heed", ("attend", "\udc80", "💥"), damages, stdin=None, stdout="full")
    assert Case.parse(str(case)) == case
    assert str(case).isascii()


def test_options_of_all_kinds_are_found() -> None:
    """Options of the root, of groups, of nested groups, and inherited ones; with the ranges of their constructors."""
    known = {(option.name, *option.where.values()): option.hint for option in OPTIONS}
    assert valid_values(known["batching.pool",]) is not None
    assert known["weights",] is str
    assert ("model.d_model", "transformer_big") in known
    assert ("model.attention.window", "rnn", "additive") in known
    assert ("model.positions.kind", "transformer", "rotary") in known
    assert ("optimizer.lr", "muon") in known
    assert ("tokenizer.bpe_dropout", "unigram") in known
