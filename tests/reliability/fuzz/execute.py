"""Run a case in a sandbox, in a process forked from one that has imported everything, which saves the import time.

A case cannot affect the memory, signals, open files or global state of the test process or of another case.
"""

import faulthandler
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import datasets
import huggingface_hub.constants
import torch

from tests import forkserver
from tests.reliability.fuzz.case import Case, joined

ROOT = Path(__file__).parents[3]
TRAIN = ROOT / "train.py"

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline", "NO_COLOR": "1"}
MEMORY = 6 * 2**30
FILE_SIZE = 2**28
DUMP = signal.SIGUSR1
"""Signal that makes a case write its stack to stderr."""
MARK = "executed"
"""File that malicious code of the cases writes to the working directory."""


@dataclass(frozen=True)
class Outcome:
    """The result of a case.

    Attributes:
        status: exit status; negative for a signal, None after the time limit.
        written: files that the command created or changed.
    """

    status: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    sandbox: Path
    written: tuple[Path, ...]


@contextmanager
def outcome(case: Case, home: Path, *, limit: float, real: bool = False) -> Iterator[Outcome]:
    """Run a case in a copy of ``home``, which is deleted at the end of the block.

    Args:
        limit: seconds, after which the case writes its stack to stderr and is killed.
        real: start a new interpreter, as a shell does.
    """
    with TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as folder:
        sandbox = Path(folder)
        shutil.copytree(home, sandbox, dirs_exist_ok=True)
        case.damage(sandbox)
        before = _states(sandbox)
        streams = sandbox / ".streams"
        streams.mkdir()
        (streams / "stdin").write_bytes(joined(case.stdin or ()))
        for name in ("stdout", "stderr"):
            (streams / name).touch()
        start = time.perf_counter()
        status = (_spawned if real else _forked)(case, sandbox, limit)
        seconds = time.perf_counter() - start
        stdout, stderr = ((streams / name).read_bytes() for name in ("stdout", "stderr"))
        shutil.rmtree(streams)
        after = _states(sandbox)
        written = tuple(path for path, state in after.items() if before.get(path) != state)
        yield Outcome(status, stdout, stderr, seconds, sandbox, written)


def _states(sandbox: Path) -> dict[Path, tuple[int, int]]:
    files = (Path(folder, name) for folder, _, names in os.walk(sandbox) for name in names)
    return {path: (path.lstat().st_mtime_ns, path.lstat().st_size) for path in files}


RUN = "import sys; from tests.reliability.fuzz.execute import run_case; run_case(sys.argv[1], float(sys.argv[2]))"


def _forked(case: Case, sandbox: Path, limit: float) -> int | None:
    plan = replace(case, damages=(), stdin=case.stdin and ())  # both are in the sandbox
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = forkserver.Popen([sys.executable, "-c", RUN, str(plan), str(limit)], cwd=sandbox, env=environment)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, DUMP)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return None
    finally:
        _kill_group(process.pid)
        process.wait()


def _spawned(case: Case, sandbox: Path, limit: float) -> int | None:
    program = ["-m", "heed"] if case.program == "heed" else [str(TRAIN)]
    stdin, stdout, stderr = (target or "&-" for target in _streams(case))
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$@" <{stdin} >{stdout} 2>{stderr}', "sh", sys.executable, *program, *case.arguments],
        cwd=sandbox,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])},
        start_new_session=True,
    )
    try:
        return process.wait(limit + 20)  # an interpreter starts slowly
    except subprocess.TimeoutExpired:
        return None
    finally:
        _kill_group(process.pid)
        process.wait()


def _streams(case: Case) -> tuple[str | None, str | None, str]:
    """Return the files of stdin, stdout and stderr; None means closed."""
    stdout = {"file": ".streams/stdout", "full": "/dev/full", "closed": None}[case.stdout]
    return None if case.stdin is None else ".streams/stdin", stdout, ".streams/stderr"


def _kill_group(pid: int) -> None:
    """Kill a case and the processes it started, which have their own session."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def run_case(plan: str, limit: float) -> None:
    """Do what a new interpreter and the console script do, in the forked process, whose folder is the sandbox."""
    case = Case.parse(plan)
    # They have read the environment of the server.
    huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    torch.set_num_threads(1)
    sys.path.remove("")
    os.setsid()
    for descriptor, target in enumerate(_streams(case)):
        if target is None:
            os.close(descriptor)
        else:
            flags = os.O_WRONLY | os.O_TRUNC if descriptor else os.O_RDONLY
            os.dup2(os.open(target, flags), descriptor)
    sys.stdin = None if case.stdin is None else os.fdopen(0, encoding="utf-8")
    if case.stdout == "closed":
        sys.stdout = None
    signal.alarm(round(limit) + 10)  # ends the case if the test process is gone
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable(2)
    faulthandler.register(DUMP, file=2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = [str(TRAIN) if case.program == "train.py" else "heed", *case.arguments]
    try:
        if case.program == "heed":
            from heed.cli import main

            sys.exit(main())
        else:
            from heed.launch import main as train

            train()
    finally:
        _flush()


def _flush() -> None:
    """Flush stdout, and exit with 120 on failure, as the interpreter does."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os._exit(120)
