"""One trial: kill a run several times, resume it each time, and compare it with an uninterrupted run."""

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak.comparison import Difference, Steps, check_plan, compare, lineage
from soak.process import PHASES, Attempt, Kill, run, train_command

PAIRS = 400
STEPS = 60
VALIDATE_EVERY = 6

TINY = (
    f"data.train={PAIRS}",
    "data.valid=24",
    "data.test=24",
    "data.long=8",
    "tokenizer.vocab_size=400",
    "batching.batch_tokens=800",
    "batching.device_tokens=1024",  # at least two micro-batches a step: work for two processes
    "schedule.warmup_steps=10",
    f"trainer.max_steps={STEPS}",
    f"trainer.validate_every={VALIDATE_EVERY}",
    "trainer.log_every=4",  # not a divisor of the validation interval: log rows span checkpoints
    "search=greedy",
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


@dataclass(frozen=True)
class Setting:
    """A training to kill and resume."""

    name: str
    overrides: tuple[str, ...]
    processes: tuple[int, ...] = (1,)
    """Number of processes of attempt 0, 1, …; the last number repeats."""

    def command(self, *, attempt: int = 0, resume: bool = False) -> list[str]:
        """Return the command line of an attempt."""
        processes = self.processes[min(attempt, len(self.processes) - 1)]
        trainer = "trainer=ddp_cpu" if processes == 2 else "trainer=cpu"
        others = [f"name={self.name}", *(["resume=true"] if resume else [])]
        return train_command(trainer, *TINY, *self.overrides, *others)

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


def train_reference(setting: Setting, folder: Path) -> Reference:
    """Train a setting without interruption.

    Raises:
        RuntimeError: the run failed.
    """
    work = folder / f"reference-{setting.name}"
    attempt = run(setting.command(), work)
    steps = lineage([attempt])
    if problems := [*attempt.problems(), *(check_plan(steps, PAIRS) if attempt.status == 0 else [])]:
        raise RuntimeError(f"the uninterrupted run of {setting.name} failed: {'; '.join(problems)}")
    (results,) = work.glob(f"runs/{setting.name}/*/results.json")
    return Reference(results.parent, steps)


def judge(
    attempts: Sequence[Attempt], runs: Path, reference: Reference, *, exact: bool
) -> tuple[Difference | None, list[str]]:
    """Compare the finished run in ``runs`` with the reference. Return the difference, and all problems.

    Args:
        attempts: what led to the finished run.
        exact: it had the reference's number of processes.
    """
    finished = [path.parent for path in runs.glob("*/results.json")]
    if len(finished) != 1:
        return None, [f"{len(finished)} finished runs in {runs}: {[path.name for path in finished]}"]
    steps = lineage(attempts)
    found = compare(finished[0], steps, reference.folder, reference.steps, exact=exact)
    return found, [*check_plan(steps, PAIRS), *found.problems(exact=exact)]


@dataclass
class Outcome:
    """The result of one trial."""

    setting: str
    number: int
    kills: Counter[str] = field(default_factory=Counter)
    """Number of kills by phase."""
    rank_kills: int = 0
    """Number of kills of a single rank."""
    resumed: int = 0
    """Number of attempts that started in the middle of training."""
    seconds: float = 0.0
    difference: Difference | None = None
    problems: list[str] = field(default_factory=list)


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
    # Each validation saves up to two checkpoints, and each checkpoint takes some milliseconds.
    return Kill(phase, 2 * validations - rng.randint(0, 1), rng.uniform(0, 0.012), target)


def kill_and_resume(
    setting: Setting,
    number: int,
    *,
    seed: int,
    kills: int,
    folder: Path,
    reference: Reference,
    planned: Sequence[Kill] = (),
) -> Outcome:
    """Kill a run ``kills`` times, resume it until it finishes, and compare it with the reference.

    Args:
        planned: the first kills; the others are drawn from ``seed``.
    """
    rng = random.Random(f"{seed} {setting.name} {number}")
    outcome = Outcome(setting.name, number)
    work = folder / f"{setting.name}-{number}"
    cache, runs = work / "cache", work / "runs" / setting.name
    attempts: list[Attempt] = []
    while not attempts or (attempts[-1].killed_in and not any(runs.glob("*/results.json"))):
        plan: Kill | None = None
        killed = outcome.kills.total()
        if killed < kills and len(attempts) < 3 * kills:
            if len(attempts) < len(planned):
                plan = planned[len(attempts)]
            else:
                # Every second run is also killed during preparation. The last kill of every run is in its final test.
                preparing, last = number % 2 == 1 and not cache.exists(), killed == kills - 1
                position = max(lineage(attempts), default=0)
                plan = draw_kill(rng, setting, preparing=preparing, last=last, position=position)
        resume = any(runs.glob("*/checkpoints/*.ckpt"))
        attempt = run(setting.command(attempt=len(attempts), resume=resume), work, kill=plan, cache=cache)
        attempts.append(attempt)
        outcome.problems += [f"attempt {len(attempts)}: {problem}" for problem in attempt.problems()]
        outcome.seconds += attempt.seconds
        outcome.resumed += attempt.start is not None and 0 < attempt.start < STEPS
        if attempt.killed_in is not None:
            outcome.kills[attempt.killed_in] += 1
            outcome.rank_kills += attempt.target != "group"
    if attempts[-1].status == 0 or any(runs.glob("*/results.json")):
        outcome.difference, problems = judge(attempts, runs, reference, exact=setting.exact)
        outcome.problems += problems
    if not outcome.problems:
        shutil.rmtree(work)
    return outcome


COLUMNS = (*PHASES, "results")
"""Phases in which a run can be killed; "results": after the final test."""


def table(outcomes: list[Outcome]) -> str:
    """Return a Markdown table of kills and differences by setting."""
    by_setting = {outcome.setting: [o for o in outcomes if o.setting == outcome.setting] for outcome in outcomes}
    rows = [_row(name, some) for name, some in {**by_setting, "all": outcomes}.items()]
    lines = [rows[0].keys(), ["---", *["---:"] * (len(rows[0]) - 1)], *(map(str, row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    exact = {setting.name for setting in SETTINGS if setting.exact}
    found = [(o.difference, o.setting in exact) for o in outcomes if o.difference]
    kills = sum((outcome.kills for outcome in outcomes), Counter[str]())
    return {
        "setting": name,
        "runs": len(outcomes),
        **{phase: kills[phase] for phase in COLUMNS},
        "kills": kills.total(),
        "resumed mid-training": sum(outcome.resumed for outcome in outcomes),
        "lost": sum(difference.lost for difference, _ in found),
        "repeated": sum(difference.repeated for difference, _ in found),
        "other weights": sum(any("weights" in problem for problem in d.problems(exact=e)) for d, e in found),
        "other metrics.csv": sum(difference.metrics and e for difference, e in found),
        "other results or translations": sum(bool(d.results or d.translations) and e for d, e in found),
        "runs with a problem": sum(bool(outcome.problems) for outcome in outcomes),
    }
