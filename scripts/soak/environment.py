"""Scenarios that random kills do not reach: an odd environment, and two processes that want the same thing."""

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


def together(commands: list[list[str]], folder: Path) -> list[Attempt]:
    """Start commands at the same moment and wait for all of them."""
    events = [folder / f"events-together-{number}" for number in range(len(commands))]
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
    """Compare the finished run of ``folder`` with an undisturbed one."""
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


def refusal(attempt: Attempt) -> list[str]:
    """Check that an attempt ended as an error of the user or the machine must: status 2, one sentence, no traceback."""
    problems = []
    if attempt.hung:
        problems.append("hung")
    if attempt.status != 2:
        problems.append(f"exit status {attempt.status} instead of 2: {attempt.stderr.strip()[-300:]}")
    if "Traceback" in attempt.stderr:
        problems.append(f"traceback: {attempt.stderr.strip()[-300:]}")
    return problems


def killed_cache(folder: Path, references: References) -> list[str]:
    """A run is killed while it builds the cache; then two runs want the same cache at once."""
    rng = random.Random("cache")
    problems = []
    for number in range(3):
        work = folder / str(number)
        work.mkdir()
        kill = Kill("preparation", 0, rng.uniform(0, 0.4))
        run(TRANSFORMER.command(attempt=0, resume=False), work, kill=kill, cache=work / "cache")
        command = TRANSFORMER.command(attempt=0, resume=False)
        both = together([[*command, "name=first"], [*command, "name=second"]], work)
        problems += [problem for attempt in both for problem in attempt.problems()]
        if left := [path.name for path in (work / "cache").rglob("*.partial")]:
            problems.append(f"left in the cache: {', '.join(left)}")
        if not problems:
            reference = references.get(TRANSFORMER)
            for name, attempt in zip(("first", "second"), both, strict=True):
                run_folder = finished_run(work / "runs" / name)
                found = compare(run_folder, lineage([attempt]), reference.folder, reference.steps, exact=True)
                # The names are meant to differ, and are a part of the configuration's hash.
                found.results = tuple(key for key in found.results if key not in ("name", "config_hash"))
                problems += found.problems(exact=True)
    return problems


def set_clock_back(folder: Path, *, seconds: int, after: int) -> dict[str, str | None]:
    """Return the environment of a program whose clock is set back ``seconds``, ``after`` seconds after its start."""
    library = folder / "clock.so"
    if not library.exists():
        source = Path(__file__).resolve().parent / "clock.c"
        subprocess.run(("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)), check=True)
    times = {"HEED_SOAK_CLOCK_BACK": str(seconds), "HEED_SOAK_CLOCK_AFTER": str(after)}
    return {"LD_PRELOAD": str(library), **times}


def clock_goes_back(folder: Path, references: References) -> list[str]:
    """The clock is three days behind when a run is resumed; it falls back by an hour while the run trains."""
    if shutil.which("cc") is None:
        return ["not tried: there is no C compiler (cc)"]
    attempts = [_interrupted(folder)]
    command = TRANSFORMER.command(attempt=1, resume=True)
    changes = set_clock_back(folder, seconds=3 * 24 * 3600, after=0), set_clock_back(folder, seconds=3600, after=8)
    for number, kill in enumerate((KILL, None)):
        events = folder / f"events-clock-{number}"
        events.mkdir()
        attempts.append(run(command, folder, events=events, changes=changes[number], kill=kill))
    problems = _differences(attempts, folder, references)
    if not problems:
        results = json.loads((finished_run(folder / "runs" / TRANSFORMER.name) / "results.json").read_text())
        # The killed attempts' last steps are not counted: more than nothing, and less than all attempts took.
        if not 0 < results["train_seconds"] < sum(attempt.seconds for attempt in attempts):
            problems.append(f"train_seconds is {results['train_seconds']}")
    return problems


def file_size_limit(folder: Path, references: References) -> list[str]:
    """`ulimit -f` stops the first checkpoint: a sentence, nothing half-written; without the limit the run goes on."""
    problems = []
    for kilobytes in (16, 128, 300):
        work = folder / str(kilobytes)
        work.mkdir()
        limited = run(TRANSFORMER.command(attempt=0, resume=False), work, file_size=kilobytes * 1024)
        problems += [f"{kilobytes} kB: {problem}" for problem in refusal(limited)]
        problems += [f"{kilobytes} kB left {path.relative_to(work)}" for path in work.rglob("*.partial")]
        problems += [f"{kilobytes} kB left {path}" for path in work.glob("runs/*/*/checkpoints/*.ckpt")]
    events = work / "events"
    events.mkdir()
    again = run(TRANSFORMER.command(attempt=0, resume=False), work, events=events)
    return problems + _differences([again], work, references)


def no_home(folder: Path, references: References) -> list[str]:
    """No HOME, LANG=C and no UTF-8 mode."""
    changes = {"HOME": None, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    events = folder / "events"
    events.mkdir()
    attempt = run(TRANSFORMER.command(attempt=0, resume=False), folder, events=events, changes=changes)
    return _differences([attempt], folder, references)


def same_second(folder: Path, references: References) -> list[str]:
    """Two runs of one name and different seeds begin at the same moment: two folders, each with its own results."""
    problems = []
    for number in range(3):
        work = folder / str(number)
        work.mkdir()
        command = TRANSFORMER.command(attempt=0, resume=False)
        both = together([[*command, "seed=1"], [*command, "seed=2"]], work)
        problems += [problem for attempt in both for problem in attempt.problems()]
        files = sorted((work / "runs" / TRANSFORMER.name).glob("*/results.json"))
        results = [json.loads(path.read_text()) for path in files]
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
    """Two ``resume=true`` at once: one goes on, the other says why it does not."""
    killed = _interrupted(folder)
    command = TRANSFORMER.command(attempt=1, resume=True)
    both = together([command, command], folder)
    if sorted(attempt.status or 0 for attempt in both) != [0, 2]:
        return [f"exit status {attempt.status}: {attempt.stderr.strip()[-300:]}" for attempt in both]
    finished, refused = sorted(both, key=lambda attempt: attempt.status or 0)
    return refusal(refused) + _differences([killed, finished], folder, references)


SCENARIOS: dict[str, Callable[[Path, References], list[str]]] = {
    "killed-cache": killed_cache,
    "clock-goes-back": clock_goes_back,
    "file-size-limit": file_size_limit,
    "no-home": no_home,
    "same-second": same_second,
    "resumed-twice": resumed_twice,
}
"""By name; each returns what was not as promised."""
