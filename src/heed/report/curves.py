"""Learning curves of runs as data, which the scripts of pages draw."""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from heed.errors import HeedError
from heed.plot.attention_map import TITLES
from heed.runs.records import ATTENTION, HEADS, read_csv

BUCKETS = 500
"""A longer curve is cut into this many parts. The smallest and the largest value of each are drawn."""
HEAD_POINTS = 60  # validations in a curve of a head: its panel is small
HEAD_MEASURES = {"entropy": "entropy", "aer": "alignment error rate"}
"""Columns of ``attention/heads.csv`` and what they are."""

CsvRows = Sequence[Mapping[str, str]]
"""Rows of ``metrics.csv`` or ``speed.csv``."""
Curve = tuple[list[int], list[float]]
"""Steps and values."""


@contextmanager
def explained_damage(run: Path) -> Iterator[None]:
    """Turn an error inside the block, which reads files of a run, into a HeedError that names the run."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, UndefinedError, csv.Error) as error:
        raise HeedError(f"A file in {run} is damaged or was not written by heed ({error}): copy it again.") from error


def read_curve(rows: CsvRows, column: str) -> Curve:
    """Return a column with its steps; empty if the file lacks it.

    Training metrics of long runs are thinned out; each validation is kept.
    """
    points = [(int(row["step"]), float(row[column])) for row in rows if row.get(column)]
    points = [(step, value) for step, value in points if math.isfinite(value)]
    if len(points) > 2 * BUCKETS and not column.startswith("valid_"):
        size = math.ceil(len(points) / BUCKETS)
        parts = [points[start : start + size] for start in range(0, len(points), size)]
        extremes = {choose(part, key=itemgetter(1)) for part in parts for choose in (min, max)}
        points = sorted({points[0], points[-1], *extremes})
    return [step for step, _ in points], [float(f"{value:.5g}") for _, value in points]


def head_charts(runs: Sequence[tuple[int, Path]]) -> list[dict[str, Any]]:
    """Return small multiples, which ``heads.js`` draws: a chart for each kind of attention and measure.

    A chart has a panel for each head, and a panel has a curve for each run.

    Args:
        runs: the number of the colour and the folder of each run. Its ``attention/heads.csv`` may be missing.
    """
    charts: dict[tuple[str, str], dict[tuple[int, int], list[Any]]] = defaultdict(lambda: defaultdict(list))
    for side, run in runs:
        with explained_damage(run):
            heads = defaultdict(list)
            for row in read_csv(run / ATTENTION / HEADS):
                heads[row["attention"], int(row["layer"]), int(row["head"])].append(row)
            for (kind, layer, head), rows in heads.items():
                for measure in HEAD_MEASURES:
                    steps, values = read_curve(thin(rows, HEAD_POINTS), measure)
                    if steps:
                        charts[kind, measure][layer, head].append({"side": side, "steps": steps, "values": values})
    return [
        {
            "title": TITLES[kind][0],
            "unit": HEAD_MEASURES[measure],
            "panels": [{"layer": layer, "head": head, "curves": of} for (layer, head), of in sorted(panels.items())],
        }
        for (kind, measure), panels in charts.items()
    ]


def read_clock(speed: CsvRows) -> list[list[float]]:
    """Return steps, and the tokens and the seconds up to each of them."""
    return [[float(row[key]) for row in thin(speed, BUCKETS)] for key in ("step", "tokens", "seconds")]


def thin(items: Sequence[Any], most: int) -> Sequence[Any]:
    """Return at most this many items, evenly spaced up to the last one."""
    return items[:: -(-len(items) // most or 1) * -1][::-1]
