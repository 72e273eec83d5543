"""The page of a run, also while it trains: curves, translations and attention maps through time, and what it trains."""

import base64
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import UndefinedError

from heed import __version__
from heed.errors import HeedError
from heed.files import replacing
from heed.plot.attention_map import most_informative_head, piece_label
from heed.report.pages import render_template
from heed.runs.checkpoints import METRICS, checkpoint_step, latest_checkpoint
from heed.runs.config import find_config, read_overrides
from heed.runs.records import ARRAYS, ATTENTION, DIAGNOSES, PIECES, SAMPLES, SPEED, read_csv, read_json_lines
from heed.runs.results import FACTS, RESULTS, read_results, scores_by_split
from heed.runs.state import find_state

REPORT = "report.html"
BUCKETS = 500
"""A longer curve is cut into this many parts, of which the smallest and the largest value are drawn."""
SAMPLES_BYTES, MAP_BYTES = 1_500_000, 100_000
"""Of all samples, and of the maps of a sentence. If there are more, fewer validations are shown."""
MAX_SENTENCES = 8
"""Sentences of a validation set whose translations and maps are shown."""

Curve = tuple[list[int], list[float]]
"""Steps and values."""


def write_report(run: Path, *, is_running: bool | None = None) -> Path:
    """Write ``report.html`` to the folder of a run, and return its path; see `render_report`."""
    html = render_report(run, is_running=is_running)
    with replacing(run / REPORT) as file:
        file.write_text(html, encoding="utf-8", errors="replace")
    return run / REPORT


def render_report(run: Path, *, is_running: bool | None = None) -> str:
    """Return the HTML of the page.

    Args:
        run: the folder of a run, of which most files may be missing.
        is_running: whether a process trains the run; None: find out.

    Raises:
        HeedError: if the folder is not that of a run, or a file in it is damaged.
    """
    config, (state, reason) = find_config(run), find_state(run, is_running=is_running)
    if config is None and state != "failed":
        raise HeedError(f"{run} is not the folder of a run: name runs/NAME/TIME, or a copy of it.")
    results = read_results(run / RESULTS) if state == "finished" else {}
    checkpoint = latest_checkpoint(run)
    try:
        rows, speed, samples = read_csv(run / METRICS), read_csv(run / SPEED), _samples(run / SAMPLES)
        data = {
            "figures": _figures(rows, speed),
            "clock": [[float(row[key]) for row in _thin(speed, BUCKETS)] for key in ("step", "tokens", "seconds")],
            "selected": results.get("selected_step"),
            "samples": samples,
            "maps": _maps(run / ATTENTION),
        }
        return render_template(
            "run.html.j2",
            run=_shell_path(run),
            path=run.resolve(),
            config=config or {},
            state=state,
            reason=reason,
            files=[path.relative_to(run).as_posix() for path in [*run.iterdir(), *run.glob("model/*")]],
            resume=_resume_command(run) if checkpoint and state in ("interrupted", "failed") else "",
            step=max([0, *(int(row["step"]) for row in rows), checkpoint_step(checkpoint) if checkpoint else 0]),
            validations=[row for row in rows if row["valid_loss"]],
            results=results,
            scores=scores_by_split(results) if state == "finished" else {},
            facts=_read_json(run / FACTS),
            options=results.get("options") or read_overrides(run),
            example=shlex.quote(next((texts["source"][0] for texts in samples.values()), "A sentence.")),
            diagnoses=read_json_lines(run / DIAGNOSES),
            data=data,
            version=__version__,
            written=f"{datetime.now():%Y-%m-%d %H:%M:%S}",
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, UndefinedError) as error:
        raise HeedError(f"A file in {run} is damaged or was not written by heed ({error}): copy it again.") from error


def _shell_path(run: Path) -> str:
    """Return the path as a shell reads it: relative if the run is in the current folder."""
    path = run.resolve()
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def _resume_command(run: Path) -> str:
    kept = [word for word in read_overrides(run) if word.partition("=")[0] not in ("resume", "ckpt_path")]
    return " ".join(["heed train", *map(shlex.quote, kept), f"hydra.run.dir={_shell_path(run)} resume=true"])


# ---- the data of the figures, which the script of the page draws


def _figures(rows: Sequence[Mapping[str, str]], speed: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return the title, the unit, and the curves by name of each figure. Curves may be empty."""
    columns = [name.removeprefix("valid_") for name in (rows[0] if rows else ()) if name.startswith("valid_")]
    figures: list[tuple[str, str, dict[str, Curve]]] = [
        ("Loss", "nats per target token", {"train": _curve(rows, "nll"), "valid": _curve(rows, "valid_loss")}),
        ("BLEU and chrF", "validation", {"BLEU": _curve(rows, "valid_bleu"), "chrF": _curve(rows, "valid_chrf")}),
        *((name, "validation", {"valid": _curve(rows, f"valid_{name}")}) for name in columns[3:]),
        ("Learning rate", "", {"lr": _curve(rows, "lr")}),
        ("Gradient norm", "before clipping", {"norm": _curve(rows, "grad_norm")}),
        ("Speed", "tokens per second", {"speed": _curve(speed, "tokens_per_second")}),
        ("Waiting for data", "fraction of the time", {"waiting": _curve(speed, "data_wait")}),
    ]
    return [{"title": title, "unit": unit, "curves": curves} for title, unit, curves in figures]


def _curve(rows: Sequence[Mapping[str, str]], column: str) -> Curve:
    """Return a column with its steps. Training metrics of long runs are thinned out; each validation is kept."""
    points = [(int(row["step"]), float(row[column])) for row in rows if row[column]]
    points = [(step, value) for step, value in points if math.isfinite(value)]
    if len(points) > 2 * BUCKETS and not column.startswith("valid_"):
        size = math.ceil(len(points) / BUCKETS)
        parts = [points[start : start + size] for start in range(0, len(points), size)]
        extremes = {choose(part, key=itemgetter(1)) for part in parts for choose in (min, max)}
        points = sorted({points[0], points[-1], *extremes})
    return [step for step, _ in points], [float(f"{value:.5g}") for _, value in points]


def _thin(items: Sequence[Any], most: int) -> Sequence[Any]:
    """Return at most this many items, evenly spaced up to the last one."""
    return items[:: -(-len(items) // most or 1) * -1][::-1]


def _samples(file: Path) -> dict[str, Any]:
    """Return for each validation set its sources and references, and the translations by step."""
    found: dict[str, Any] = {}
    for record in read_json_lines(file):
        texts = found.setdefault(record["set"], {"steps": [], "translations": []})
        texts |= {side: record[side][:MAX_SENTENCES] for side in ("source", "reference")}
        texts["steps"].append(record["step"])
        texts["translations"].append(record["translation"][:MAX_SENTENCES])
    for texts in found.values():
        most = len(texts["steps"]) * SAMPLES_BYTES // file.stat().st_size + 1
        texts |= {name: _thin(texts[name], most) for name in ("steps", "translations")}
    return found


def _maps(folder: Path) -> list[dict[str, Any]]:
    """Return for each sentence the weights, by step, of the head that is most informative at the last validation.

    Weights are bytes in base64, 255 for a weight of 1.
    """
    found, steps = [], sorted(path.parent for path in folder.glob(f"[0-9]*/{ARRAYS}"))
    for name, pieces in list(_read_json(folder / PIECES).items())[:MAX_SENTENCES] if steps else []:
        layer, head = most_informative_head(last := _read_array(steps[-1], name))
        shown = _thin(steps, max(1, MAP_BYTES // last[layer, head].size))
        weights = [(_read_array(step, name)[layer, head].clip(0, 1) * 255).round().astype(np.uint8) for step in shown]
        labels = {side: [piece_label(piece) for piece in pieces[side]] for side in ("rows", "columns")}
        times = {"steps": [int(step.name) for step in shown], "head": [layer + 1, head + 1]}
        found.append({**pieces, **labels, **times, "weights": [base64.b64encode(each).decode() for each in weights]})
    return found


def _read_array(step: Path, name: str) -> npt.NDArray[np.float16]:
    with np.load(step / ARRAYS) as arrays:
        weights: npt.NDArray[np.float16] = arrays[name]
        return weights


def _read_json(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
