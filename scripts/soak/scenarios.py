"""Scenarios that random kills do not cover: unusual environments, and concurrent processes.

Each scenario returns its problems; an empty list means that it passed.
"""

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from soak.comparison import compare, finished_run, lineage
from soak.process import TIME_LIMIT, Attempt, Kill, Process, run
from soak.trial import SETTINGS, VALIDATE_EVERY, References, Setting

TRANSFORMER = SETTINGS[0]
KILL = Kill("training", 2 * VALIDATE_EVERY + 2, 0.0)
"""In the middle of training, between two checkpoints."""


def run_concurrently(commands: list[list[str]], folder: Path) -> list[Attempt]:
    """Start commands at the same time and wait for all of them."""
    events = [folder / f"events-concurrent-{number}" for number in range(len(commands))]
    for path in events:
        path.mkdir()
    processes = [Process(command, folder, events=path) for command, path in zip(commands, events, strict=True)]
    return [process.finish(Attempt(process.command), limit=TIME_LIMIT) for process in processes]


def _interrupted(folder: Path, setting: Setting = TRANSFORMER) -> Attempt:
    """Start a run and kill it in the middle of training."""
    events = folder / "events-killed"
    events.mkdir()
    return run(setting.command(attempt=0, resume=False), folder, events=events, kill=KILL)


def _differences(attempts: list[Attempt], folder: Path, references: References) -> list[str]:
    """Compare the finished run of ``folder`` with an uninterrupted one."""
    problems = [problem for attempt in attempts for problem in attempt.problems()]
    if problems:
        return problems
    reference = references.get(TRANSFORMER)
    try:
        finished = finished_run(folder / "runs" / TRANSFORMER.name)
    except ValueError as error:
        return [str(error)]
    steps = lineage(attempts)
    return list(compare(finished, steps, reference.folder, reference.steps, exact=True).problems(exact=True))


def check_refusal(attempt: Attempt) -> list[str]:
    """Check that an attempt was refused properly: exit status 2 and no traceback."""
    problems = []
    if attempt.hung:
        problems.append("hung")
    if attempt.status != 2:
        problems.append(f"exit status {attempt.status} instead of 2: {attempt.stderr.strip()[-300:]}")
    if "Traceback" in attempt.stderr:
        problems.append(f"traceback: {attempt.stderr.strip()[-300:]}")
    return problems


def killed_cache(folder: Path, references: References) -> list[str]:
    """Kill a run while it builds the cache; then start two runs with this cache at once."""
    rng = random.Random("cache")
    problems = []
    for number in range(3):
        work = folder / str(number)
        work.mkdir()
        kill = Kill("preparation", 0, rng.uniform(0, 0.4))
        run(TRANSFORMER.command(attempt=0, resume=False), work, kill=kill, cache=work / "cache")
        command = TRANSFORMER.command(attempt=0, resume=False)
        both = run_concurrently([[*command, "name=first"], [*command, "name=second"]], work)
        problems += [problem for attempt in both for problem in attempt.problems()]
        if left := [path.name for path in (work / "cache").rglob("*.partial")]:
            problems.append(f"left in the cache: {', '.join(left)}")
        if not problems:
            reference = references.get(TRANSFORMER)
            for name, attempt in zip(("first", "second"), both, strict=True):
                run_folder = finished_run(work / "runs" / name)
                found = compare(run_folder, lineage([attempt]), reference.folder, reference.steps, exact=True)
                # The names differ on purpose, and are part of the configuration's hash.
                found.results = tuple(key for key in found.results if key not in ("name", "config_hash"))
                problems += found.problems(exact=True)
    return problems


def set_clock_back(folder: Path, *, seconds: int, after: int) -> dict[str, str | None]:
    """Return the environment that sets a program's clock back by ``seconds``, ``after`` seconds after it starts."""
    library = folder / "clock.so"
    if not library.exists():
        source = Path(__file__).resolve().parent / "clock.c"
        subprocess.run(("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)), check=True)
    times = {"HEED_SOAK_CLOCK_BACK": str(seconds), "HEED_SOAK_CLOCK_AFTER": str(after)}
    return {"LD_PRELOAD": str(library), **times}


def clock_goes_back(folder: Path, references: References) -> list[str]:
    """Resume a run with a clock three days behind; then set the clock back by an hour during training."""
    if shutil.which("cc") is None:
        return ["not tested: there is no C compiler (cc)"]
    attempts = [_interrupted(folder)]
    command = TRANSFORMER.command(attempt=1, resume=True)
    changes = set_clock_back(folder, seconds=3 * 24 * 3600, after=0), set_clock_back(folder, seconds=3600, after=8)
    for number, kill in enumerate((KILL, None)):
        events = folder / f"events-clock-{number}"
        events.mkdir()
        attempts.append(run(command, folder, events=events, changes=changes[number], kill=kill))
    problems = _differences(attempts, folder, references)
    if not problems:
        results = json.loads(
            (finished_run(folder / "runs" / TRANSFORMER.name) / "results.json").read_text(encoding="utf-8")
        )
        # Steps lost by a kill do not count, so the time is less than that of all attempts.
        if not 0 < results["train_seconds"] < sum(attempt.seconds for attempt in attempts):
            problems.append(f"train_seconds is {results['train_seconds']}")
    return problems


def file_size_limit(folder: Path, references: References) -> list[str]:
    """Limit the file size (`ulimit -f`): the run fails without partial files; without the limit it succeeds."""
    problems = []
    for kilobytes in (16, 128, 300):
        work = folder / str(kilobytes)
        work.mkdir()
        limited = run(TRANSFORMER.command(attempt=0, resume=False), work, file_size=kilobytes * 1024)
        problems += [f"{kilobytes} kB: {problem}" for problem in check_refusal(limited)]
        problems += [f"{kilobytes} kB left {path.relative_to(work)}" for path in work.rglob("*.partial")]
        problems += [f"{kilobytes} kB left {path}" for path in work.glob("runs/*/*/checkpoints/*.ckpt")]
    events = work / "events"
    events.mkdir()
    again = run(TRANSFORMER.command(attempt=0, resume=False), work, events=events)
    return problems + _differences([again], work, references)


def no_home(folder: Path, references: References) -> list[str]:
    """Train without HOME, with LANG=C and without UTF-8 mode."""
    changes = {"HOME": None, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    events = folder / "events"
    events.mkdir()
    attempt = run(TRANSFORMER.command(attempt=0, resume=False), folder, events=events, changes=changes)
    return _differences([attempt], folder, references)


def same_second(folder: Path, references: References) -> list[str]:
    """Start two runs of one name with different seeds at once: they need two folders with different results."""
    problems = []
    for number in range(3):
        work = folder / str(number)
        work.mkdir()
        command = TRANSFORMER.command(attempt=0, resume=False)
        both = run_concurrently([[*command, "seed=1"], [*command, "seed=2"]], work)
        problems += [problem for attempt in both for problem in attempt.problems()]
        files = sorted((work / "runs" / TRANSFORMER.name).glob("*/results.json"))
        results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
        if sorted(result["seed"] for result in results) != [1, 2]:
            problems.append(f"{len(files)} folders with results, seeds {[result['seed'] for result in results]}")
        elif results[0]["valid"] == results[1]["valid"]:
            problems.append("both report the same scores")
        else:
            (first,) = (p.parent for p, result in zip(files, results, strict=True) if result["seed"] == 1)
            reference = references.get(TRANSFORMER)
            problems += compare(first, lineage([both[0]]), reference.folder, reference.steps, exact=True).problems(
                exact=True
            )
    return problems


def resumed_twice(folder: Path, references: References) -> list[str]:
    """Start two processes with ``resume=true`` at once: one resumes the run, the other is refused."""
    killed = _interrupted(folder)
    command = TRANSFORMER.command(attempt=1, resume=True)
    both = run_concurrently([command, command], folder)
    if sorted(attempt.status or 0 for attempt in both) != [0, 2]:
        return [f"exit status {attempt.status}: {attempt.stderr.strip()[-300:]}" for attempt in both]
    finished, refused = sorted(both, key=lambda attempt: attempt.status or 0)
    return check_refusal(refused) + _differences([killed, finished], folder, references)


SCENARIOS: dict[str, Callable[[Path, References], list[str]]] = {
    "killed-cache": killed_cache,
    "clock-goes-back": clock_goes_back,
    "file-size-limit": file_size_limit,
    "no-home": no_home,
    "same-second": same_second,
    "resumed-twice": resumed_twice,
}
"""By name; each returns its problems."""
