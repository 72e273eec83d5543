"""Command line of the fuzz test: ``python -m tests.reliability.fuzz --cases 10000 --seed 1``."""

import argparse
import atexit
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import forkserver
from tests.reliability.fuzz.campaign import FaultError, explore
from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.execute import ENVIRONMENT, outcome
from tests.reliability.fuzz.home import build_home
from tests.reliability.fuzz.oracle import verdict
from tests.reliability.fuzz.surfaces import SURFACES


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the fuzz test.")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--surface", action="append", choices=[surface.name for surface in SURFACES])
    parser.add_argument("--limit", type=float, default=30, help="seconds per case (default: %(default)s)")
    parser.add_argument("--no-shrink", action="store_true", help="do not search for a smaller case of a fault")
    parser.add_argument("--replay", metavar="CASE", help="run one case of a fault report")
    args = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    forkserver.begin_session()
    atexit.register(forkserver.end_session)
    with TemporaryDirectory(prefix="fuzz-home-") as folder:
        home = build_home(Path(folder))
        if args.replay:
            return replay(Case.parse(args.replay), home, limit=args.limit)
        surfaces = [surface for surface in SURFACES if not args.surface or surface.name in args.surface]
        shares = sum(surface.share for surface in surfaces)
        faults = 0
        for surface in surfaces:
            start = time.perf_counter()
            tally = explore(
                surface,
                home,
                cases=round(args.cases * surface.share / shares),
                limit=args.limit,
                random_seed=args.seed,
                shrink=not args.no_shrink,
                report=report,
            )
            faults += len(tally.faults)
            print(f"{surface.name}: {tally} in {time.perf_counter() - start:.0f} s", flush=True)
            for fault, count in tally.faults.most_common():
                print(f"  {count:5}  {fault}")
    return 1 if faults else 0


def report(fault: FaultError) -> None:
    print(f"\n==== {fault}\n", flush=True)


def replay(case: Case, home: Path, *, limit: float) -> int:
    """Run one case and print its output and verdict. Returns the exit status."""
    with outcome(case, home, limit=limit) as seen:
        sys.stdout.buffer.write(seen.stdout)
        sys.stderr.buffer.write(seen.stderr)
        fault = verdict(case, seen)
    print(f"exit status {seen.status}; {fault or 'no fault'}")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
