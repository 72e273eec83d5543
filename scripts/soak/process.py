"""Start a training command, follow its events, and kill it."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OBSERVER = Path(__file__).resolve().parent / "observer"
POLL_SECONDS = 0.002
TIME_LIMIT = 180.0
"""Seconds after which an attempt counts as hanging."""
GRACE = 45.0
"""Seconds in which the other processes of a run must end after one of them was killed."""


@dataclass(frozen=True)
class Kill:
    """When to kill an attempt: ``delay`` seconds after the ``count``-th event of a phase.

    Attributes:
        phase: one of `PHASES`.
        target: "group": all processes of the run. "first" or "other": one rank; the others must end by themselves.
    """

    phase: str
    count: int
    delay: float
    target: str = "group"


PHASES = {
    "preparation": "",
    "training": "step",
    "validation": "validating",
    "checkpoint": "saving",
    "final test": "testing",
}
"""By phase, the event after which to kill. Preparation starts when the cache folder appears."""

STATES = {
    "started": "training",
    "training": "training",
    "step": "training",
    "validating": "validation",
    "saving": "checkpoint",
    "testing": "final test",
    "finishing": "results",
}
"""By event, the phase that it starts."""


@dataclass
class Attempt:
    """The result of one process or group of ranks.

    Attributes:
        status: exit status.
        killed_in: phase in which it was killed, by its last event; None if it ended by itself.
        target: what was killed, as in `Kill`.
        events: of all its processes.
    """

    command: list[str]
    status: int | None = None
    killed_in: str | None = None
    target: str = "group"
    hung: bool = False
    seconds: float = 0.0
    stderr: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def start(self) -> int | None:
        """The global step at which training started; None if it did not start."""
        return next((event["step"] for event in self.events if event["event"] == "started"), None)

    def problems(self) -> Iterator[str]:
        """Describe what is wrong with this attempt: it hung, failed without being killed, or printed a traceback."""
        if self.hung:
            yield f"hung ({self.seconds:.0f} s)"
        if self.killed_in is None and self.status != 0:
            yield f"exit status {self.status}: {self.stderr.strip()[-600:]}"
        if "Traceback" in self.stderr and self.target == "group":
            yield f"traceback: {self.stderr.strip()[-600:]}"


def environment(events: Path | None, changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the environment of a command: one thread, the observer, and ``changes`` (None removes a variable)."""
    result = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{OBSERVER}{os.pathsep}{ROOT / 'src'}"}
    if events is not None:
        _install_entry_point(events)
        result["PYTHONPATH"] += f"{os.pathsep}{events / 'site'}"
        result["HEED_SOAK_EVENTS"] = str(events)
    for name, value in (changes or {}).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def _install_entry_point(events: Path) -> None:
    """Write package metadata through which Lightning finds the observer."""
    folder = events / "site" / "heed_soak_observer-0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: heed_soak_observer\nVersion: 0\n", encoding="utf-8")
    group = "[lightning.pytorch.callbacks_factory]\nobserver = heed_soak_observer:observers\n"
    (folder / "entry_points.txt").write_text(group, encoding="utf-8")


def train_command(*overrides: str) -> list[str]:
    """Return the command line of a training run."""
    return [sys.executable, str(ROOT / "train.py"), *overrides]


class Process:
    """A command in its own process group, with its stderr in a file."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        *,
        events: Path | None = None,
        changes: Mapping[str, str | None] | None = None,
        file_size: int | None = None,
    ) -> None:
        """
        Args:
            folder: working directory.
            events: folder for the observer's files; None: no observer.
            file_size: bytes of the largest file it may write (`ulimit -f`).
        """
        self.command, self.events = command, events
        self._known = set(events.glob("*.jsonl")) if events else set()
        self._log = folder / f"stderr-{time.monotonic_ns()}.txt"
        self._start_time = time.monotonic()

        def limit() -> None:
            assert file_size is not None
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(events, changes),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                preexec_fn=limit if file_size is not None else None,
            )

    def read_events(self) -> list[dict[str, Any]]:
        """Return the events of all its processes so far."""
        if self.events is None:
            return []
        records: list[dict[str, Any]] = []
        for path in sorted(set(self.events.glob("*.jsonl")) - self._known):
            *lines, _ = path.read_bytes().split(b"\n")  # after the last newline: nothing, or half a record
            records += map(json.loads, lines)
        return records

    def kill(self, pid: int | None = None) -> None:
        """SIGKILL one process, or the whole group."""
        try:
            if pid is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def group_alive(self) -> bool:
        """Whether any process of the group is alive. Zombies do not count."""
        self.process.poll()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, group = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
            except OSError:  # the process has ended
                continue
            if int(group) == self.process.pid and state != "Z":
                return True
        return False

    def finish(self, attempt: Attempt, *, limit: float) -> Attempt:
        """Wait until all processes have ended; kill those that are alive after ``limit`` seconds."""
        deadline = time.monotonic() + limit
        while self.group_alive():
            if time.monotonic() > deadline:
                attempt.hung = True
                self.kill()
                self.process.wait()
                break
            time.sleep(0.05)
        attempt.status = self.process.wait()
        attempt.seconds = time.monotonic() - self._start_time
        attempt.stderr = self._log.read_text(encoding="utf-8", errors="replace")
        attempt.events = self.read_events()
        self._log.unlink()
        return attempt


def run(
    command: list[str],
    folder: Path,
    *,
    events: Path | None = None,
    kill: Kill | None = None,
    cache: Path | None = None,
    changes: Mapping[str, str | None] | None = None,
    file_size: int | None = None,
) -> Attempt:
    """Run a command to its end, or kill it after one of its events.

    Args:
        cache: cache folder; its creation marks the start of preparation.
    """
    process = Process(command, folder, events=events, changes=changes, file_size=file_size)
    attempt = Attempt(command)
    if kill is not None and _wait_for(process, kill, cache):
        _kill(process, kill, attempt)
        return process.finish(attempt, limit=GRACE)
    return process.finish(attempt, limit=TIME_LIMIT)


def _wait_for(process: Process, kill: Kill, cache: Path | None) -> bool:
    """Wait until it is time to kill. Return False if the process ended before, or takes too long."""
    deadline = time.monotonic() + TIME_LIMIT
    while time.monotonic() < deadline:
        if process.process.poll() is not None:
            return False
        if kill.phase == "preparation":
            reached = cache is not None and cache.exists()
        else:
            records = process.read_events()
            lead = records[0]["pid"] if records else None
            kinds = [record["event"] for record in records if record["pid"] == lead]
            reached = kinds.count(PHASES[kill.phase]) >= kill.count
        if reached:
            time.sleep(kill.delay)
            return True
        time.sleep(POLL_SECONDS)
    return False


def _kill(process: Process, kill: Kill, attempt: Attempt) -> None:
    if process.process.poll() is not None:  # it ended during the delay
        return
    ranks = {event["rank"]: event["pid"] for event in process.read_events() if event["event"] == "setup"}
    victim = None
    if kill.target != "group" and len(ranks) > 1:
        victim = ranks[0] if kill.target == "first" else ranks[max(ranks)]
    process.kill(victim)
    attempt.target = kill.target if victim else "group"
    states = [STATES[e["event"]] for e in process.read_events() if e["event"] in STATES and e["pid"] == ranks.get(0)]
    attempt.killed_in = states[-1] if states else "preparation"
