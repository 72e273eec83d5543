"""Start a training command, follow its events, and kill it."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OBSERVER = Path(__file__).resolve().parent / "observer"
"""A folder with the observer and the package metadata through which Lightning finds it."""
POLL_SECONDS = 0.002
TIME_LIMIT = 180.0
"""Seconds after which an attempt counts as hanging."""
GRACE = 45.0
"""Seconds in which the other processes of a run must end after one of them was killed."""

PHASES = {
    "preparation": "",
    "training": "step",
    "validation": "validating",
    "checkpoint": "saving",
    "final test": "testing",
}
"""By phase, the event after which to kill. Preparation starts when the cache folder appears."""
STATES = {event: phase for phase, event in PHASES.items() if event} | {
    "started": "training",
    "training": "training",
    "finishing": "results",
}
"""By event, the phase that it starts."""


@dataclass(frozen=True)
class Kill:
    """When to kill an attempt: ``delay`` seconds after the ``count``-th event of a phase."""

    phase: str
    """One of `PHASES`."""
    count: int
    delay: float
    target: str = "group"
    """"group": all processes of the run. "first" or "other": one rank; the others must end by themselves."""


@dataclass
class Attempt:
    """The result of one process or group of ranks."""

    status: int | None = None
    killed_in: str | None = None
    """The phase in which it was killed, by its last event; None if it ended by itself."""
    target: str = "group"
    """What was killed, as in `Kill`."""
    hung: bool = False
    seconds: float = 0.0
    stderr: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Of all its processes."""

    @property
    def start(self) -> int | None:
        """The global step at which training started; None if it did not start."""
        return next((event["step"] for event in self.events if event["event"] == "started"), None)

    def problems(self, *, status: int = 0) -> Iterator[str]:
        """Describe what is wrong with this attempt: it hung, printed a traceback, or ended with another status.

        Args:
            status: the expected exit status, if it was not killed.
        """
        if self.hung:
            yield f"hung ({self.seconds:.0f} s)"
        if self.killed_in is None and self.status != status:
            yield f"exit status {self.status} instead of {status}: {self.stderr.strip()[-600:]}"
        if "Traceback" in self.stderr and self.target == "group":
            yield f"traceback: {self.stderr.strip()[-600:]}"


PLAIN = (
    "data=synthetic", "logger=none", "trainer.precision=32-true", "trainer.max_epochs=null", "weights=last",
    "callbacks.attention_maps=null", "callbacks.sample_translations=null", "callbacks.early_stopping=null",
    "cache_dir=cache",
)  # fmt: skip
"""A training that is repeated to the last bit and writes no pictures."""


def train_command(*overrides: str) -> list[str]:
    """Return the command line of a `PLAIN` training run with other options."""
    return [sys.executable, str(ROOT / "train.py"), *PLAIN, *overrides]


class Process:
    """A command in its own process group, which writes its stderr and its events to a new folder.

    Args:
        folder: working directory.
        changes: environment variables; None removes one.
        file_size: bytes of the largest file it may write (`ulimit -f`). It is not observed then.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        changes: Mapping[str, str | None] | None = None,
        file_size: int | None = None,
    ) -> None:
        self._folder = folder / f"events-{time.monotonic_ns()}"
        self._folder.mkdir(parents=True)
        self._start_time = time.monotonic()
        path = f"{OBSERVER}{os.pathsep}{ROOT / 'src'}"
        events = str(self._folder) if file_size is None else None
        settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "HEED_SOAK_EVENTS": events, **(changes or {})}
        environment = {name: value for name, value in (os.environ | settings).items() if value is not None}
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (file_size, file_size)) if file_size else None
        with (self._folder / "stderr").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                preexec_fn=limit,
            )

    def read_events(self) -> list[dict[str, Any]]:
        """Return the events of all its processes so far."""
        records: list[dict[str, Any]] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            *lines, _ = path.read_bytes().split(b"\n")  # after the last newline: nothing, or half a record
            records += map(json.loads, lines)
        return records

    def group_alive(self) -> bool:
        """Whether any process of the group is alive. Zombies do not count."""
        self.process.poll()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # the process has ended
                state, _, group = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
                if int(group) == self.process.pid and state != "Z":
                    return True
        return False

    def finish(self, attempt: Attempt | None = None, *, limit: float = TIME_LIMIT) -> Attempt:
        """Wait until all processes have ended; kill those that are alive after ``limit`` seconds."""
        attempt = attempt or Attempt()
        deadline = time.monotonic() + limit
        while self.group_alive():
            if time.monotonic() > deadline:
                attempt.hung = True
                os.killpg(self.process.pid, signal.SIGKILL)
                break
            time.sleep(0.05)
        attempt.status = self.process.wait()
        attempt.seconds = time.monotonic() - self._start_time
        attempt.stderr = (self._folder / "stderr").read_text(encoding="utf-8", errors="replace")
        attempt.events = self.read_events()
        return attempt


def run(
    command: Sequence[str], folder: Path, *, kill: Kill | None = None, cache: Path | None = None, **settings: Any
) -> Attempt:
    """Run a command to its end, or kill it after one of its events.

    Args:
        cache: cache folder; its creation marks the start of preparation.
        settings: of `Process`.
    """
    process = Process(command, folder, **settings)
    if kill is not None and _wait_for(process, kill, cache):
        return process.finish(_kill(process, kill), limit=GRACE)
    return process.finish()


def _wait_for(process: Process, kill: Kill, cache: Path | None) -> bool:
    """Wait until it is time to kill. Return False if the process ended before, or takes too long."""
    deadline = time.monotonic() + TIME_LIMIT
    while process.process.poll() is None and time.monotonic() < deadline:
        if kill.phase == "preparation":
            reached = cache is not None and cache.exists()
        else:
            records = process.read_events()
            lead = [record["event"] for record in records if record["pid"] == records[0]["pid"]]
            reached = lead.count(PHASES[kill.phase]) >= kill.count
        if reached:
            time.sleep(kill.delay)
            return process.process.poll() is None
        time.sleep(POLL_SECONDS)
    return False


def _kill(process: Process, kill: Kill) -> Attempt:
    ranks = {event["rank"]: event["pid"] for event in process.read_events() if event["event"] == "setup"}
    victim = None
    if kill.target != "group" and len(ranks) > 1:
        victim = ranks[0] if kill.target == "first" else ranks[max(ranks)]
    with suppress(ProcessLookupError):
        if victim is None:
            os.killpg(process.process.pid, signal.SIGKILL)
        else:
            os.kill(victim, signal.SIGKILL)
    states = [STATES[e["event"]] for e in process.read_events() if e["event"] in STATES and e["pid"] == ranks.get(0)]
    return Attempt(killed_in=states[-1] if states else "preparation", target=kill.target if victim else "group")
