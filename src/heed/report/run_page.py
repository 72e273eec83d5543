"""The page of a run, also while it trains: curves, translations and attention maps through time, and what it trains."""

import base64
import json
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heed import __version__
from heed.errors import HeedError
from heed.files import write_file
from heed.plot.attention_map import most_informative_head, piece_label
from heed.report.curves import CsvRows, explained_damage, head_charts, read_clock, read_curve, thin
from heed.report.pages import render_template
from heed.runs.checkpoints import METRICS_FILE, checkpoint_step, latest_checkpoint
from heed.runs.config import find_config, read_overrides
from heed.runs.folder import find_state
from heed.runs.records import ARRAYS, ATTENTION, DIAGNOSES, PIECES, SAMPLES, SPEED, read_csv, read_json_lines
from heed.runs.results import FACTS_FILE, RESULTS, read_results, scores_by_split

REPORT_FILE = "report.html"
SAMPLES_BYTES, MAP_BYTES = 1_500_000, 100_000
"""Of all samples, and of the maps of a sentence. If there are more, fewer validations are shown."""
MAX_SENTENCES = 8  # sentences of a validation set whose translations and maps are shown


def write_report(run: Path, *, is_running: bool | None = None) -> Path:
    """Write ``report.html`` to the folder of a run, and return its path; see `render_report`."""
    write_file(run / REPORT_FILE, render_report(run, is_running=is_running).encode(errors="replace"))
    return run / REPORT_FILE


def render_report(run: Path, *, is_running: bool | None = None) -> str:
    """Return the HTML of the page.

    Args:
        run: the folder of a run. Most of its files may be missing.
        is_running: whether a process trains the run; None: find out.

    Raises:
        HeedError: if the folder is not that of a run, or a file in it is damaged.
    """
    config, (state, reason) = find_config(run), find_state(run, is_running=is_running)
    if config is None and state != "failed":
        raise HeedError(f"{run} is not the folder of a run: name runs/NAME/TIME, or a copy of it.")
    results = read_results(run / RESULTS) if state == "finished" else {}
    checkpoint = latest_checkpoint(run)
    with explained_damage(run):
        rows, speed, samples = read_csv(run / METRICS_FILE), read_csv(run / SPEED), _samples(run / SAMPLES)
        data = {
            "figures": _figures(rows, speed),
            "clock": read_clock(speed),
            "selected": results.get("selected_step"),
            "samples": samples,
            "maps": _maps(run / ATTENTION),
            "heads": head_charts([(0, run)]),
        }
        return render_template(
            "run.html.j2",
            run=_shell_path(run),
            path=run.resolve(),
            config=config or {},
            state=state,
            reason=reason,
            files=[
                path.relative_to(run).as_posix()
                for path in [*run.iterdir(), *run.glob("model/*"), *run.glob(f"{ATTENTION}/*")]
            ],
            resume=_resume_command(run) if checkpoint and state in ("interrupted", "failed") else "",
            step=max([0, *(int(row["step"]) for row in rows), checkpoint_step(checkpoint) if checkpoint else 0]),
            validations=[row for row in rows if row["valid_loss"]],
            results=results,
            scores=scores_by_split(results) if state == "finished" else {},
            facts=_read_json(run / FACTS_FILE),
            options=results.get("options") or read_overrides(run),
            example=shlex.quote(next((texts["source"][0] for texts in samples.values()), "A sentence.")),
            diagnoses=read_json_lines(run / DIAGNOSES),
            data=data,
            version=__version__,
            written=f"{datetime.now():%Y-%m-%d %H:%M:%S}",
        )


def _shell_path(run: Path) -> str:
    """Return the path as a shell reads it: relative if the run is in the current folder."""
    path = run.resolve()
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def _resume_command(run: Path) -> str:
    kept = [word for word in read_overrides(run) if word.partition("=")[0] not in ("resume", "ckpt_path", "folder")]
    return " ".join(["heed train", *map(shlex.quote, kept), f"folder={_shell_path(run)} resume=true"])


# ---- the data of the figures, which the script of the page draws


def _figures(rows: CsvRows, speed: CsvRows) -> list[dict[str, Any]]:
    """Return the title, the unit, and the curves by name of each figure. Curves may be empty."""
    columns = [name.removeprefix("valid_") for name in (rows[0] if rows else ()) if name.startswith("valid_")]
    figures = [
        ("Loss", "nats per target token", rows, {"train": "nll", "valid": "valid_loss"}),
        ("BLEU and chrF", "validation, greedy", rows, {"BLEU": "valid_bleu", "chrF": "valid_chrf"}),
        *((name, _how(name), rows, {"valid": f"valid_{name}"}) for name in columns[3:]),
        ("Learning rate", "", rows, {"lr": "lr"}),
        ("Gradient norm", "before clipping", rows, {"norm": "grad_norm"}),
        ("Speed", "tokens per second", speed, {"speed": "tokens_per_second"}),
        ("Waiting for data", "fraction of the time", speed, {"waiting": "data_wait"}),
    ]
    return [
        {"title": title, "unit": unit, "curves": {name: read_curve(records, column) for name, column in curves.items()}}
        for title, unit, records, curves in figures
    ]


def _how(metric: str) -> str:
    """Return how a validation computes a metric: some score the references, and others translations."""
    return "validation" if metric == "aer" or metric.endswith("perplexity") else "validation, greedy"


def _samples(file: Path) -> dict[str, Any]:
    """Return for each validation set its sources and references, and the translations by step."""
    found: dict[str, Any] = {}
    for record in read_json_lines(file):
        sides = {side: record[side][:MAX_SENTENCES] for side in ("source", "reference")}
        texts = found.get(record["set"], {})
        if any(texts.get(side) != lines for side, lines in sides.items()):
            # The first record, or a resumed run samples other sentences.
            texts = found[record["set"]] = {**sides, "steps": [], "translations": []}
        texts["steps"].append(record["step"])
        texts["translations"].append(record["translation"][:MAX_SENTENCES])
    for texts in found.values():
        most = len(texts["steps"]) * SAMPLES_BYTES // file.stat().st_size + 1
        texts |= {name: thin(texts[name], most) for name in ("steps", "translations")}
    return found


def _maps(folder: Path) -> list[dict[str, Any]]:
    """Return for each sentence the weights, by step, of the head that is most informative at the last validation.

    Weights are bytes in base64, 255 for a weight of 1.
    """
    found, steps = [], sorted(path.parent for path in folder.glob(f"[0-9]*/{ARRAYS}"))
    for name, pieces in list(_read_json(folder / PIECES).items())[:MAX_SENTENCES] if steps else []:
        layer, head = most_informative_head(last := _read_array(steps[-1], name))
        shown = thin(steps, max(1, MAP_BYTES // last[layer, head].size))
        weights = [(_read_array(step, name)[layer, head].clip(0, 1) * 255).round().astype(np.uint8) for step in shown]
        labels = {side: [piece_label(piece) for piece in pieces[side]] for side in ("rows", "columns")}
        times = {"steps": [int(step.name) for step in shown], "head": [layer + 1, head + 1]}
        found.append({**pieces, **labels, **times, "weights": [base64.b64encode(each).decode() for each in weights]})
    return found


def _read_array(step: Path, name: str) -> npt.NDArray[np.float16]:
    with np.load(step / ARRAYS) as arrays:
        return arrays[name]


def _read_json(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
