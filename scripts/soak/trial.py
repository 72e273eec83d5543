"""One trial: kill a run several times, resume it each time, and compare it with an uninterrupted run."""

import random
import shutil
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak.comparison import Difference, Steps, check_plan, compare, finished_run, lineage
from soak.process import PHASES, Attempt, Kill, run, train_command

PAIRS = 400
STEPS = 60
VALIDATE_EVERY = 6

TINY = (
    "logger=none",
    "data=synthetic",
    f"data.train={PAIRS}",
    "data.valid=24",
    "data.test=24",
    "data.long=8",
    "tokenizer.vocab_size=400",
    "batching.batch_tokens=800",
    "batching.device_tokens=1024",  # at least two micro-batches a step: work for two processes
    "schedule.warmup_steps=10",
    "trainer=cpu",
    "trainer.precision=32-true",
    "trainer.max_epochs=null",
    f"trainer.max_steps={STEPS}",
    f"trainer.validate_every={VALIDATE_EVERY}",
    "trainer.log_every=4",  # not a divisor of the validation interval: log rows span checkpoints
    "callbacks.attention_maps=null",
    "callbacks.sample_translations=null",
    "callbacks.early_stopping=null",
    "search=greedy",
    "weights=last",
)
"""A training of seconds over two and a half epochs, with a checkpoint every 6 steps."""

TRANSFORMER = (
    "model.d_model=32",
    "model.d_ff=64",
    "model.num_heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
)
RNN = ("model=rnn", "model.d_embedding=32", "model.d_model=32")
TWO_PROCESSES = ("trainer=ddp_cpu",)


@dataclass(frozen=True)
class Setting:
    """A training to kill and resume.

    Args:
        processes: number of processes of attempt 0, 1, …; the last number repeats.
    """

    name: str
    overrides: tuple[str, ...]
    processes: tuple[int, ...] = (1,)

    def command(self, *, attempt: int, resume: bool) -> list[str]:
        """Return the command line of an attempt."""
        processes = self.processes[min(attempt, len(self.processes) - 1)]
        trainer = TWO_PROCESSES if processes == 2 else ()
        others = [f"name={self.name}", "cache_dir=cache", *(["resume=true"] if resume else [])]
        tiny = [override for override in TINY if not (trainer and override == "trainer=cpu")]
        return train_command(*trainer, *tiny, *self.overrides, *others)

    @property
    def exact(self) -> bool:
        """Whether all attempts have the same number of processes."""
        return len(set(self.processes)) == 1


SETTINGS = (
    Setting("transformer", TRANSFORMER),
    Setting("bpe-dropout-r-drop", (*TRANSFORMER, "tokenizer.bpe_dropout=0.1", "module.r_drop=2.0")),
    Setting("ema", (*TRANSFORMER, "callbacks.ema.decay=0.9", "weights=ema")),
    Setting("muon", (*TRANSFORMER, "optimizer=muon")),
    Setting("rnn", RNN),
    Setting("ddp", TRANSFORMER, processes=(2,)),
    Setting("1-2-1-processes", TRANSFORMER, processes=(1, 2, 1, 2, 1)),
)


@dataclass
class Reference:
    """An uninterrupted run."""

    folder: Path
    steps: Steps


@dataclass
class Outcome:
    """The result of one trial.

    Attributes:
        kills: number of kills by phase.
        rank_kills: number of kills of a single rank.
        resumed: number of attempts that started in the middle of training.
    """

    setting: str
    number: int
    kills: dict[str, int] = field(default_factory=dict)
    rank_kills: int = 0
    resumed: int = 0
    seconds: float = 0.0
    difference: Difference | None = None
    problems: list[str] = field(default_factory=list)


class References:
    """The uninterrupted run of each setting, trained at its first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Reference] = {}
        self._locks: dict[str, threading.Lock] = {setting.name: threading.Lock() for setting in SETTINGS}

    def get(self, setting: Setting) -> Reference:
        """Return the reference of a setting.

        Raises:
            RuntimeError: the run failed.
        """
        with self._locks.setdefault(setting.name, threading.Lock()):
            if setting.name not in self._made:
                self._made[setting.name] = self._make(setting)
            return self._made[setting.name]

    def _make(self, setting: Setting) -> Reference:
        folder = self._folder / f"reference-{setting.name}"
        (folder / "events").mkdir(parents=True)
        command = setting.command(attempt=0, resume=False)
        attempt = run(command, folder, events=folder / "events")
        steps = lineage([attempt])
        if problems := [*attempt.problems(), *(check_plan(steps, PAIRS) if attempt.status == 0 else [])]:
            raise RuntimeError(f"the uninterrupted run of {setting.name} failed: {'; '.join(problems)}")
        return Reference(finished_run(folder / "runs" / setting.name), steps)


def draw_kill(rng: random.Random, setting: Setting, *, preparing: bool, last: bool, position: int) -> Kill:
    """Draw when to kill next.

    Args:
        preparing: kill while the cache is built.
        last: kill in the final test or while the results are written.
        position: step at which the next attempt starts.
    """
    if preparing:
        return Kill("preparation", 0, rng.uniform(0, 0.2))
    target = rng.choice(("group", "first", "other")) if max(setting.processes) > 1 else "group"
    if last:
        return Kill("final test", 1, rng.uniform(0, 0.9), target)
    phase = rng.choices(("training", "validation", "checkpoint"), (5, 2, 4))[0]
    remaining = max(1, (STEPS - position) // VALIDATE_EVERY)
    validations = rng.randint(1, min(3, remaining))
    if phase == "training":
        return Kill(phase, rng.randint(1, min(3, remaining) * VALIDATE_EVERY), rng.uniform(0, 0.03), target)
    if phase == "validation":
        return Kill(phase, validations, rng.uniform(0, 0.3), target)
    # Each validation saves up to two checkpoints, each of which takes some milliseconds.
    return Kill(phase, 2 * validations - rng.randint(0, 1), rng.uniform(0, 0.012), target)


def kill_and_resume(
    setting: Setting,
    number: int,
    *,
    seed: int,
    kills: int,
    folder: Path,
    references: References,
    planned: Sequence[Kill] = (),
) -> Outcome:
    """Kill a run ``kills`` times, resume it until it finishes, and compare it with the reference.

    Args:
        planned: the first kills; the others are drawn from ``seed``.
    """
    rng = random.Random(f"{seed} {setting.name} {number}")
    outcome = Outcome(setting.name, number)
    try:
        reference = references.get(setting)
    except RuntimeError as error:
        outcome.problems.append(str(error))
        return outcome
    work = folder / f"{setting.name}-{number}"
    cache, runs = work / "cache", work / "runs" / setting.name
    attempts: list[Attempt] = []
    while True:
        events = work / f"events-{len(attempts)}"
        events.mkdir(parents=True)
        # From the observed steps and not from a file, because the soak test uses the command line only.
        position = max(lineage(attempts), default=0)
        more_kills = sum(outcome.kills.values()) < kills and len(attempts) < 3 * kills
        plan: Kill | None = None
        if more_kills and len(attempts) < len(planned):
            plan = planned[len(attempts)]
        elif more_kills:
            # Every second run is also killed during preparation. The last kill of every run is in its final test.
            preparing = number % 2 == 1 and not cache.exists()
            last = sum(outcome.kills.values()) == kills - 1
            plan = draw_kill(rng, setting, preparing=preparing, last=last, position=position)
        resume = any(runs.glob("*/checkpoints/*.ckpt"))
        command = setting.command(attempt=len(attempts), resume=resume)
        attempt = run(command, work, events=events, kill=plan, cache=cache)
        attempts.append(attempt)
        outcome.problems += [f"attempt {len(attempts)}: {problem}" for problem in attempt.problems()]
        outcome.seconds += attempt.seconds
        outcome.resumed += attempt.start is not None and 0 < attempt.start < STEPS
        if attempt.killed_in is None:
            break
        outcome.kills[attempt.killed_in] = outcome.kills.get(attempt.killed_in, 0) + 1
        outcome.rank_kills += attempt.target != "group"
        if any(runs.glob("*/results.json")):  # killed after its results were written: nothing to resume
            break
    if attempt.status == 0 or any(runs.glob("*/results.json")):
        _compare(outcome, setting, attempts, runs, reference)
    if not outcome.problems:
        shutil.rmtree(work)
    return outcome


def _compare(outcome: Outcome, setting: Setting, attempts: list[Attempt], runs: Path, reference: Reference) -> None:
    try:
        finished = finished_run(runs)
    except ValueError as error:
        outcome.problems.append(str(error))
        return
    steps = lineage(attempts)
    outcome.problems += check_plan(steps, PAIRS)
    outcome.difference = compare(finished, steps, reference.folder, reference.steps, exact=setting.exact)
    outcome.problems += outcome.difference.problems(exact=setting.exact)


COLUMNS = (*PHASES, "results")
"""Phases in which a run can be killed; "results": after the final test."""


def table(outcomes: list[Outcome]) -> str:
    """Return a Markdown table of kills and differences by setting."""
    head = ["setting", "runs", *COLUMNS, "kills", "resumed mid-training", "lost", "repeated", "other weights"]
    head += ["other metrics.csv", "other results or translations", "runs with a problem"]
    names = list(dict.fromkeys(outcome.setting for outcome in outcomes))
    rows = [_row(name, [o for o in outcomes if o.setting == name]) for name in names]
    rows.append(_row("all", outcomes))
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(name: str, outcomes: list[Outcome]) -> list[str]:
    exact = {setting.name for setting in SETTINGS if setting.exact}
    found = [(o.difference, o.setting in exact) for o in outcomes if o.difference]
    kills: Counter[str] = sum((Counter(outcome.kills) for outcome in outcomes), Counter())
    numbers: list[Any] = [
        len(outcomes),
        *(kills[phase] for phase in COLUMNS),
        kills.total(),
        sum(outcome.resumed for outcome in outcomes),
        sum(difference.lost for difference, _ in found),
        sum(difference.repeated for difference, _ in found),
        sum(any("weights" in problem for problem in d.problems(exact=e)) for d, e in found),
        sum(difference.metrics and e for difference, e in found),
        sum(bool(difference.results or difference.translations) and e for difference, e in found),
        sum(bool(outcome.problems) for outcome in outcomes),
    ]
    return [name, *map(str, numbers)]
