"""Times, rates of alternating rounds, and peak memory."""

import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


def timed(compute: Callable[[Work], Result], work: Work, now: Callable[[], float]) -> tuple[Result, float]:
    """Return the result of ``compute(work)``, and its seconds on the clock ``now``."""
    start = now()
    result = compute(work)
    return result, now() - start


def comparison(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Compare the rates of two sides.

    Other load on the machine affects both sides of a round, so ratios are taken within rounds.

    Returns:
        Medians of the rates and of the ratios of each round; "spread": their minima and maxima.
    """
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return {
        "ours": round(median(ours), 2),
        "theirs": round(median(theirs), 2),
        "ratio": round(median(ratios), 3),
        "spread": {"ours": _range(ours), "theirs": _range(theirs), "ratio": _range(ratios)},
        "rounds": len(ratios),
    }


def rows(rates: Mapping[str, Sequence[float]], *, unit: str, **facts: Any) -> list[dict[str, Any]]:
    """Compare the rates of ``heed`` with the rates of each peer, and print the result.

    Args:
        rates: by side, one rate for each round.
        facts: added to each row.
    """
    ours = rates["heed"]
    found = []
    for peer, theirs in rates.items():
        if peer != "heed":
            row = {**facts, "peer": peer, **comparison(ours, theirs)}
            low, high = row["spread"]["ratio"]
            print(
                f"  {peer:<24} {row['theirs']:>10,.1f}   heed {row['ours']:>10,.1f} {unit}   "
                f"ratio {row['ratio']:.2f} ({low:.2f} to {high:.2f})",
                flush=True,
            )
            found.append(row)
    return found


def _range(values: Sequence[float]) -> tuple[float, float]:
    return round(min(values), 3), round(max(values), 3)


def anonymous_mib() -> float:
    """Return the resident memory of this process without that of mapped files, in MiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def peak_mib() -> float:
    """Return the largest resident memory that this process has had, in MiB (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mib(process: int | Literal["self"] = "self") -> float:
    """Return the resident memory of a process, in MiB (Linux)."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20
