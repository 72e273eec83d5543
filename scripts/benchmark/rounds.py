"""Rates measured in turns, so that what else the machine does meets all sides alike."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any


def comparison(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Two sides' rates, round by round: medians, spread, and the ratios of each round, which alone count."""
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return {
        "ours": round(median(ours), 2),
        "theirs": round(median(theirs), 2),
        "ratio": round(median(ratios), 3),
        "spread": {"ours": _ends(ours), "theirs": _ends(theirs), "ratio": _ends(ratios)},
        "rounds": len(ratios),
    }


def rows(rates: Mapping[str, Sequence[float]], *, unit: str, **facts: Any) -> list[dict[str, Any]]:
    """A row for each peer's rates against those of ``heed``, printed as they are made."""
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


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return round(min(values), 3), round(max(values), 3)
