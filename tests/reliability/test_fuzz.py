"""Hostile input to the real commands: `execution` says what is checked.

`make test` runs 30 cases, `make test-full` 3,000. To run others::

    pytest tests/reliability/test_fuzz.py --fuzz-cases=10000 --hypothesis-seed=1

Hypothesis prints the smallest case of each fault.
"""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.reliability.execution import MARK, Case, Outcome, build_home, check, outcome
from tests.reliability.surfaces import SURFACES

pytestmark = pytest.mark.reliability

LIMIT = 60
"""Seconds per case."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_home(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("surface", SURFACES)
def test_hostile_input(home: Path, surface: str, pytestconfig: pytest.Config) -> None:
    strategy, share = SURFACES[surface]
    valid: list[bool] = []

    @settings(
        max_examples=round(pytestconfig.getoption("fuzz_cases") * share),
        phases=[Phase.generate, Phase.shrink],
        derandomize=pytestconfig.getoption("--hypothesis-seed") is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy(home))
    def run(case: Case) -> None:
        with outcome(case, home, limit=LIMIT) as seen:
            check(case, seen)
        valid.append(case.valid)

    run()
    assert sum(valid) >= len(valid) // 10  # heed must not refuse everything


REFUSAL = "heed: in/rnn holds no model: name another folder.\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "/x/src/heed/translator.py", line 9, in score\nKeyError: 3\n'
FAULTS: list[tuple[int, str, str, str, str]] = [
    # exit status, stderr, a file that was written, its content; the fault
    (0, "", "results.json", "{}", ""),
    (2, REFUSAL, "out.html", "", ""),
    (2, "usage: heed\nheed translate: no such option\n", "out.html", "", ""),
    (1, TRACEBACK, "out.html", "", "KeyError: 3"),
    (2, TRACEBACK + REFUSAL, "out.html", "", "KeyError: 3"),
    (2, "", "out.html", "", "without a readable message"),
    (2, "heed: " + "x" * 10_000, "out.html", "", "without a readable message"),
    (-11, "", "out.html", "", "exit status -11"),
    (1, "Timeout (0:01:00)!\n", "out.html", "", "no end within the limit"),
    (2, REFUSAL, "model.safetensors.partial", "", "partial was left"),
    (0, "", "results.json", '{"loss": NaN}', "NaN"),
    (0, "", MARK, "", "code of a file was executed"),
]


@pytest.mark.parametrize(("status", "stderr", "file", "content", "fault"), FAULTS)
def test_each_fault_is_detected(tmp_path: Path, status: int, stderr: str, file: str, content: str, fault: str) -> None:
    (tmp_path / file).write_text(content)
    seen = Outcome(status, stderr, tmp_path, created=(tmp_path / file,))
    if not fault:
        return check(Case("heed", ("translate",)), seen)
    with pytest.raises(AssertionError, match=fault):
        check(Case("heed", ("translate",)), seen)
    return None


def test_streams_and_the_time_limit(home: Path) -> None:
    good = Case("heed", ("translate", "--model", "in/rnn"), stdin=((b"a b\n", 3),))
    # faulthandler reads the frames of a running thread: rarely, it crashes after its message.
    for limit, streams, statuses, message in (
        (LIMIT, {"stdout": "full"}, [2], "No space left"),
        (0.001, {}, [1, -signal.SIGSEGV], "Timeout ("),
    ):
        with outcome(Case(**{**vars(good), **streams}), home, limit=limit) as seen:
            assert seen.status in statuses
            assert message in seen.stderr
