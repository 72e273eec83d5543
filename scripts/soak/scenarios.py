"""Scenarios that random kills do not cover: unusual environments, and concurrent processes.

Each scenario returns its problems; an empty list means that it passed.
"""

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from soak.comparison import compare, lineage
from soak.process import Attempt, Kill, Process, run
from soak.trial import SETTINGS, VALIDATE_EVERY, Reference, judge

TRANSFORMER = SETTINGS[0]
TRAIN, RESUME = TRANSFORMER.command(), TRANSFORMER.command(attempt=1, resume=True)
KILL = Kill("training", 2 * VALIDATE_EVERY + 2, 0.0)
"""In the middle of training, between two checkpoints."""


def run_concurrently(commands: list[list[str]], folder: Path) -> list[Attempt]:
    """Start commands at the same time and wait for all of them."""
    return [process.finish() for process in [Process(command, folder) for command in commands]]


def _problems(attempts: Sequence[Attempt]) -> list[str]:
    return [problem for attempt in attempts for problem in attempt.problems()]


def _differences(attempts: Sequence[Attempt], runs: Path, reference: Reference) -> list[str]:
    """Compare the finished run in ``runs``, which the attempts trained, with an uninterrupted one."""
    return _problems(attempts) or judge(attempts, runs, reference, exact=True)[1]


def killed_cache(folder: Path, reference: Reference) -> list[str]:
    """Kill a run while it builds the cache; then start two runs with this cache at once."""
    rng = random.Random("cache")
    problems = []
    for number in range(3):
        work = folder / str(number)
        run(TRAIN, work, kill=Kill("preparation", 0, rng.uniform(0, 0.4)), cache=work / "cache")
        names = ("first", "second")
        both = run_concurrently([[*TRAIN, f"name={name}"] for name in names], work)
        problems += [f"left in the cache: {path.name}" for path in (work / "cache").rglob("*.partial")]
        for name, attempt in zip(names, both, strict=True):
            found = _differences([attempt], work / "runs" / name, reference)
            # The names differ on purpose, and are part of the configuration's digest.
            problems += [problem for problem in found if problem != "results.json differs in config_digest, name"]
    return problems


def set_clock_back(folder: Path, *, seconds: int, after: int) -> dict[str, str | None]:
    """Return the environment that sets a program's clock back by ``seconds``, ``after`` seconds after it starts."""
    library = folder / "clock.so"
    if not library.exists():
        source = Path(__file__).resolve().parent / "clock.c"
        subprocess.run(("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)), check=True)
    times = {"HEED_SOAK_CLOCK_BACK": str(seconds), "HEED_SOAK_CLOCK_AFTER": str(after)}
    return {"LD_PRELOAD": str(library), **times}


def clock_goes_back(folder: Path, reference: Reference) -> list[str]:
    """Resume a run with a clock three days behind; then set the clock back by an hour during training."""
    if shutil.which("cc") is None:
        return ["not tested: there is no C compiler (cc)"]
    days, hour = set_clock_back(folder, seconds=3 * 24 * 3600, after=0), set_clock_back(folder, seconds=3600, after=8)
    runs = folder / "runs" / TRANSFORMER.name
    attempts = [
        run(TRAIN, folder, kill=KILL),
        run(RESUME, folder, kill=KILL, changes=days),
        run(RESUME, folder, changes=hour),
    ]
    problems = _differences(attempts, runs, reference)
    if not problems:
        (results,) = (json.loads(path.read_text(encoding="utf-8")) for path in runs.glob("*/results.json"))
        # Steps lost by a kill do not count, so the time is less than the sum over all attempts.
        if not 0 < results["train_seconds"] < sum(attempt.seconds for attempt in attempts):
            problems.append(f"train_seconds is {results['train_seconds']}")
    return problems


def file_size_limit(folder: Path, reference: Reference) -> list[str]:
    """Limit the file size (`ulimit -f`): the run fails without partial files; without the limit it succeeds."""
    problems = []
    for kilobytes in (16, 128, 300):
        work = folder / str(kilobytes)
        limited = run(TRAIN, work, file_size=kilobytes * 1024)
        left = [*work.rglob("*.partial"), *work.glob("runs/*/*/checkpoints/*.ckpt")]
        found = [*limited.problems(status=2), *(f"left {path.relative_to(work)}" for path in left)]
        problems += [f"{kilobytes} kB: {problem}" for problem in found]
    return problems + _differences([run(TRAIN, work)], work / "runs" / TRANSFORMER.name, reference)


def no_home(folder: Path, reference: Reference) -> list[str]:
    """Train without HOME, with LANG=C and without UTF-8 mode."""
    changes = {"HOME": None, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    return _differences([run(TRAIN, folder, changes=changes)], folder / "runs" / TRANSFORMER.name, reference)


def same_second(folder: Path, reference: Reference) -> list[str]:
    """Start two runs of one name with different seeds at once: they need two folders with different results."""
    problems = []
    for number in range(3):
        work = folder / str(number)
        both = run_concurrently([[*TRAIN, "seed=1"], [*TRAIN, "seed=2"]], work)
        problems += _problems(both)
        paths = sorted((work / "runs" / TRANSFORMER.name).glob("*/results.json"))
        results = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        if sorted(result["seed"] for result in results) != [1, 2]:
            problems.append(f"{len(paths)} folders with results, seeds {[result['seed'] for result in results]}")
        elif results[0]["valid"] == results[1]["valid"]:
            problems.append("both report the same scores")
        else:
            (first,) = (path.parent for path, result in zip(paths, results, strict=True) if result["seed"] == 1)
            found = compare(first, lineage(both[:1]), reference.folder, reference.steps, exact=True)
            problems += found.problems(exact=True)
    return problems


def resumed_twice(folder: Path, reference: Reference) -> list[str]:
    """Start two processes with ``resume=true`` at once: one resumes the run, the other is refused."""
    killed = run(TRAIN, folder, kill=KILL)
    finished, refused = sorted(run_concurrently([RESUME, RESUME], folder), key=lambda attempt: attempt.status or 0)
    problems = [*finished.problems(), *refused.problems(status=2)]
    return problems or _differences([killed, finished], folder / "runs" / TRANSFORMER.name, reference)


SCENARIOS: dict[str, Callable[[Path, Reference], list[str]]] = {
    "killed-cache": killed_cache,
    "clock-goes-back": clock_goes_back,
    "file-size-limit": file_size_limit,
    "no-home": no_home,
    "same-second": same_second,
    "resumed-twice": resumed_twice,
}
"""By name; each returns its problems."""
