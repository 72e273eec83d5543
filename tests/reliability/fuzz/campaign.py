"""Generate and run the cases of a surface, and count the outcomes."""

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyFailure

from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.execute import Outcome, outcome
from tests.reliability.fuzz.oracle import verdict
from tests.reliability.fuzz.surfaces import Surface

NEW_INTERPRETER_EVERY = 100
"""One of this many cases is also run in a new interpreter."""


class FaultError(AssertionError):
    """A fault, with the case and the command to replay it."""

    def __init__(self, fault: str, case: Case, seen: Outcome) -> None:
        stderr = seen.stderr.decode("utf-8", "replace")[-2000:]
        super().__init__(f"{fault}\n{stderr}\nTo replay: python -m tests.reliability.fuzz --replay {str(case)!r}")
        self.fault, self.case = fault, case


@dataclass
class Tally:
    """Outcomes of the cases of a surface.

    Attributes:
        succeeded: number of valid cases that exited with 0.
    """

    cases: int = 0
    valid: int = 0
    succeeded: int = 0
    statuses: Counter[int | None] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} with {status}" for status, count in sorted(self.statuses.items(), key=str))
        valid = f"{self.succeeded} of {self.valid} valid succeeded"
        return f"{self.cases} cases ({counts}); {valid}; {len(self.faults)} faults"


def check(case: Case, home: Path, tally: Tally, *, limit: float, known: Sequence[str] = ()) -> None:
    """Run a case and count it.

    Raises:
        FaultError: the case has a fault that is not in ``known``.
    """
    tally.cases += 1
    again = zlib.crc32(str(case).encode()) % NEW_INTERPRETER_EVERY == 0
    for real in (False, True) if again else (False,):
        with outcome(case, home, limit=limit, real=real) as seen:
            fault = verdict(case, seen)
            tally.statuses[seen.status] += 1
            tally.valid += case.valid
            tally.succeeded += case.valid and seen.status == 0
            if fault:
                tally.faults[fault] += 1
                if fault not in known:
                    raise _fault_class(fault)(fault, case, seen)


@cache
def _fault_class(fault: str) -> type[FaultError]:
    """Return the exception class of a fault. Hypothesis shrinks only within one class."""
    return type(fault, (FaultError,), {})


def explore(
    surface: Surface,
    home: Path,
    *,
    cases: int,
    limit: float,
    random_seed: int | None = None,
    shrink: bool = True,
    report: Callable[[FaultError], None],
) -> Tally:
    """Run cases of a surface, and report each fault once, with the smallest case that was found.

    Args:
        cases: number of cases.
        limit: seconds per case.
        random_seed: seed of the cases; None: the same cases every time.
        shrink: search for the smallest case of a fault.
        report: called with each fault.
    """
    total = Tally()
    known: list[str] = []
    while total.cases < cases:
        search = settings(
            max_examples=cases - total.cases,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            derandomize=random_seed is None,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )

        def run(case: Case) -> None:
            check(case, home, total, limit=limit, known=known)

        test = search(given(surface.cases(home))(run))
        try:
            (test if random_seed is None else seed(random_seed + len(known))(test))()
        except (FaultError, FlakyFailure) as raised:
            # Flaky: the case did not fail again, mostly because of the time limit.
            found = raised.exceptions[0] if isinstance(raised, FlakyFailure) else raised
            assert isinstance(found, FaultError)
            report(found)
            known.append(found.fault)
        else:
            break
    return total
