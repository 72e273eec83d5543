"""Generate cases of a surface, run them, and count how they end."""

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

ONE_REAL_IN = 100
"""Of so many cases one also runs in a new interpreter."""


class FaultError(AssertionError):
    """What a command did against the oracle, and how to replay it."""

    def __init__(self, fault: str, case: Case, seen: Outcome) -> None:
        said = seen.stderr.decode("utf-8", "replace")[-2000:]
        super().__init__(f"{fault}\n{said}\nTo replay: python -m tests.reliability.fuzz --replay {str(case)!r}")
        self.fault, self.case = fault, case


@dataclass
class Tally:
    """How the cases of a surface ended."""

    cases: int = 0
    valid: int = 0
    succeeded: int = 0
    """Of the valid ones."""
    statuses: Counter[int | None] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} with {status}" for status, count in sorted(self.statuses.items(), key=str))
        valid = f"{self.succeeded} of {self.valid} valid succeeded"
        return f"{self.cases} cases ({counts}); {valid}; {len(self.faults)} faults"


def check(case: Case, home: Path, tally: Tally, *, limit: float, known: Sequence[str] = ()) -> None:
    """Run a case, count it, and raise a `FaultError` unless it holds or its fault is known."""
    tally.cases += 1
    again = zlib.crc32(str(case).encode()) % ONE_REAL_IN == 0
    for real in (False, True) if again else (False,):
        with outcome(case, home, limit=limit, real=real) as seen:
            fault = verdict(case, seen)
            tally.statuses[seen.status] += 1
            tally.valid += case.valid
            tally.succeeded += case.valid and seen.status == 0
            if fault:
                tally.faults[fault] += 1
                if fault not in known:
                    raise _kind(fault)(fault, case, seen)


@cache
def _kind(fault: str) -> type[FaultError]:
    """A class for each fault, by which hypothesis tells one from another while it shrinks a case."""
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
    """Run that many cases; report each fault once, with the smallest case found for it.

    Args:
        random_seed: None: the same cases every time.
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
            # Flaky: a time limit, mostly.
            found = raised.exceptions[0] if isinstance(raised, FlakyFailure) else raised
            assert isinstance(found, FaultError)
            report(found)
            known.append(found.fault)
        else:
            break
    return total
