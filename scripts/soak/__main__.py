"""Soak test: kill training runs at random moments, resume them, and compare them with uninterrupted runs."""

import argparse
import importlib
import json
import math
import platform
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak.scenarios import SCENARIOS
from soak.trial import SETTINGS, Outcome, Setting, kill_and_resume, table, train_reference

MACHINES = {"pairs": "soak.lives.campaign", "text": "soak.damages", "mutants": "soak.lives.mutants"}
"""``python -m scripts.soak NAME``: random life cycles, damaged text, and broken lines that the former must find."""


def main() -> int:
    """Run the soak test and write the report, or run one of `MACHINES`.

    Returns:
        Exit status: 1 if a run or a scenario failed.
    """
    if sys.argv[1:2] and sys.argv[1] in MACHINES:
        machine = importlib.import_module(MACHINES[sys.argv[1]])
        return int(machine.main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python scripts/soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="minimum number of kills (default: %(default)s)")
    parser.add_argument("--per-run", type=int, default=6, help="kills per run (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the kills (default: %(default)s)")
    names = [setting.name for setting in SETTINGS]
    parser.add_argument("--only", action="append", metavar="NAME", help=f"a setting ({', '.join(names)}) or scenario "
                        f"({', '.join(SCENARIOS)}); may be given several times")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("soak"), help="OUT.json and OUT.md (default: %(default)s)")
    parser.add_argument("--work", type=Path, help="folder for the runs (default: temporary); failed runs are kept")
    arguments = parser.parse_args()
    if unknown := set(arguments.only or ()) - {*names, *SCENARIOS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    work = arguments.work or Path(tempfile.mkdtemp(prefix="heed-soak-"))
    work.mkdir(parents=True, exist_ok=True)
    print(f"runs in {work}", file=sys.stderr)

    start_time = time.monotonic()
    outcomes = _trials(arguments, work) if not arguments.only or set(arguments.only) & set(names) else []
    scenarios: dict[str, list[str]] = {}
    if chosen := [name for name in SCENARIOS if not arguments.only or name in arguments.only]:
        reference = train_reference(SETTINGS[0], work / "scenarios")
        for name in chosen:
            (work / name).mkdir()
            scenarios[name] = SCENARIOS[name](work / name, reference)
            print(f"{name}: {'; '.join(scenarios[name]) or 'passed'}", file=sys.stderr, flush=True)

    minutes = (time.monotonic() - start_time) / 60
    failed = [outcome for outcome in outcomes if outcome.problems]
    report = {
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "seed": arguments.seed,
        "minutes": round(minutes, 1),
        "trials": [_record(outcome) for outcome in outcomes],
        "scenarios": scenarios,
    }
    arguments.out.with_suffix(".json").write_text(
        json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    page = table(outcomes) if outcomes else ""
    if scenarios:
        rows = "".join(f"| {name} | {_cell(found)} |\n" for name, found in scenarios.items())
        page += f"\n| scenario | outcome |\n| --- | --- |\n{rows}"
    page += f"\n{minutes:.0f} minutes, seed {arguments.seed}, torch {torch.__version__}.\n"
    arguments.out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)
    for outcome in failed:
        print(f"{outcome.setting} {outcome.number}:", *outcome.problems, sep="\n  ", file=sys.stderr)
    return 1 if failed or any(scenarios.values()) else 0


def _cell(problems: list[str]) -> str:
    """Format the outcome of a scenario as a Markdown table cell."""
    return " ".join("; ".join(problems).replace("|", "/").split())[:300] or "passed"


def _record(outcome: Outcome) -> dict[str, Any]:
    """Convert an outcome to JSON. Weights that cannot be compared are null, because JSON has no infinity."""
    record = {**asdict(outcome), "kills": dict(outcome.kills)}  # asdict() counts the items of a Counter
    if outcome.difference and math.isinf(outcome.difference.weights):
        record["difference"]["weights"] = None
    return record


def _trials(arguments: argparse.Namespace, work: Path) -> list[Outcome]:
    """Run trials of each setting in turn until there were enough kills."""
    settings = [setting for setting in SETTINGS if not arguments.only or setting.name in arguments.only]
    numbered = ((setting, number) for number in count(1) for setting in settings)
    outcomes: list[Outcome] = []
    start_time = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        references = dict(zip(settings, pool.map(lambda one: train_reference(one, work), settings), strict=True))

        def trial(one: tuple[Setting, int]) -> Outcome:
            setting, number = one
            options: dict[str, Any] = {"seed": arguments.seed, "kills": arguments.per_run, "folder": work}
            return kill_and_resume(setting, number, reference=references[setting], **options)

        kills = 0
        while kills < arguments.kills:
            before = kills
            for last in pool.map(trial, islice(numbered, math.ceil((arguments.kills - kills) / arguments.per_run))):
                outcomes.append(last)
                kills += last.kills.total()
                minutes = (time.monotonic() - start_time) / 60
                problems = "; ".join(last.problems)[:400] or "equal"
                progress = f"{kills} of {arguments.kills} kills, {minutes:.1f} min"
                print(f"{progress}; {last.setting} {last.number}: {problems}", file=sys.stderr, flush=True)
            if kills == before:
                raise RuntimeError(f"no kill succeeded: {outcomes[-1].problems}")
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
