"""Interpreters that start in milliseconds: a server has imported torch, Lightning, Hydra and heed, and forks.

`Popen` and `run` replace those of `subprocess` for commands that begin with ``sys.executable``. Processes that such a
process starts with its ``sys.executable``, for example the workers of torchrun, are forked too. All have the arguments,
environment, files, working directory and signal handlers that a fresh interpreter would have, and nothing of the test
process.

Differences from a fresh interpreter:

- What is read when Python or a library starts is the server's: ``PYTHONHASHSEED``, ``OMP_NUM_THREADS``, ``MALLOC_…``.
- Modules are imported already. Tests of imports need a fresh interpreter.
- The parent is the server. A process that another forked process starts is represented by a small process, which has
  the expected parent and passes signals on; when it ends, the process is killed.

On systems other than Linux, the processes are ordinary ones.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

FOLDER = "HEED_TESTS_FORKSERVER"
"""Environment variable: the folder of the server's socket, which all processes of a test session share."""
SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")
    if hasattr(signal, name)  # Windows has two of them
]
PRELOADED = (
    "torch.distributed.run", "torch.utils.serialization.config", "hydra.core.override_parser.overrides_parser",
    "lightning.pytorch", "datasets", "sacrebleu", "matplotlib.figure", "PIL.PngImagePlugin",
    "heed.cli", "heed.launch.run", "heed.launch.processes", "heed.report",
    "heed.launch.grid", "heed.training.schedules", "heed.training.callbacks.attention", "heed.plot",
    "heed.data.text.synthetic_corpus", "heed.data.text.files_corpus", "heed.inference.loading",
)  # fmt: skip

cpu_seconds = 0.0
"""CPU seconds of the finished forked processes of this test process; the first one's include those of the server."""


def begin_session() -> None:
    """Choose the folder of a test session. Processes that are started later share its server."""
    folder = Path(tempfile.mkdtemp(prefix="heed-forkserver-"))
    (folder / "session").write_text(str(os.getpid()), encoding="utf-8")
    os.environ[FOLDER] = str(folder)


def end_session() -> None:
    """Remove the folder. The server ends with the process that has begun the session."""
    shutil.rmtree(os.environ.pop(FOLDER))


class ForkedPopen(subprocess.Popen[Any]):
    """A process that the server forks."""

    def _execute_child(self, *args: Any) -> None:
        """Replace the private method of the standard library that forks and executes the program."""
        names = subprocess.Popen._execute_child.__code__.co_varnames[1 : 1 + len(args)]
        given = dict(zip(names, args, strict=True))
        assert given["args"][0] == sys.executable, given["args"]
        assert not given["shell"]
        assert given["preexec_fn"] is None
        pipes = [given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        streams = {number: number if end == -1 else end for number, end in enumerate((pipes[0], pipes[3], pipes[5]))}
        try:
            self._server, self.pid = _fork(
                given["args"][1:],
                files=streams | {number: number for number in given["pass_fds"]},
                folder=os.fspath(given["cwd"] or Path.cwd()),
                environment=dict(os.environ if given["env"] is None else given["env"]),
                new_session=given["start_new_session"],
            )
        finally:
            self._close_pipe_fds(*pipes)
        self._child_created = True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._wait(timeout=0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self.args, timeout)
            global cpu_seconds
            self.returncode, cpu_seconds = _read(self._server)
            self._server.close()
        return self.returncode


def forked_run(
    command: Any, *, input: Any = None, timeout: float | None = None, check: bool = False,
    capture_output: bool = False, **settings: Any
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """Do what `subprocess.run` does, with a forked process."""
    settings |= {"stdin": subprocess.PIPE} if input is not None else {}
    settings |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} if capture_output else {}
    with ForkedPopen(command, **settings) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.wait(), output, errors)
    if check:
        done.check_returncode()
    return done


def python() -> str:
    """Return the path of a program for shells that does what ``sys.executable`` does, in a forked process."""
    if not hasattr(os, "pidfd_open"):
        return sys.executable
    _connect().close()
    return f"{os.environ[FOLDER]}/python"


Popen = ForkedPopen if hasattr(os, "pidfd_open") else subprocess.Popen
run = forked_run if hasattr(os, "pidfd_open") else subprocess.run


def _fork(
    arguments: list[Any], *, files: dict[int, int], folder: str, environment: dict[str, str], new_session: bool
) -> tuple[socket.socket, int]:
    """Ask the server for a process and return the connection, on which its status will come, and the process's id.

    Args:
        files: for each file descriptor of the process, the one of this process.
    """
    server = _connect()
    socket.send_fds(server, [b"x"], list(files.values()))
    request = {
        "arguments": [os.fsdecode(word) for word in arguments], "files": list(files), "folder": folder,
        "environment": environment, "new_session": new_session, "user": os.environ.get("PYTEST_XDIST_WORKER"),
    }  # fmt: skip
    _write(server, request)
    return server, _read(server)


def _connect() -> socket.socket:
    """Connect to the server, which the first process of a test session starts."""
    folder = Path(os.environ[FOLDER])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "socket").exists():
            with (folder / "log").open("w") as log:
                process = subprocess.Popen(
                    [sys.executable, __file__, "serve"], start_new_session=True,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
            while not (folder / "socket").exists():
                assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
                time.sleep(0.05)
            process.returncode = 0  # nobody waits for it: it ends with the session
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(folder / "socket"))
    return server


def _write(connection: socket.socket, message: Any) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _read(connection: socket.socket) -> Any:
    """Read one message.

    Raises:
        EOFError: the other side has ended.
    """
    text = b""
    while not text.endswith(b"\n"):
        if not (part := connection.recv(1 << 16, socket.MSG_PEEK)):
            raise EOFError
        text += connection.recv(part.find(b"\n") + 1 or len(part))  # the next message may have come, too
    return json.loads(text)


def _keep_compositions() -> None:
    """Compose what forked processes often compose, and keep it."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from heed.launch.compose import compose_with_hydra
    from tests.compositions import keep_compositions

    del sys.path[0]
    keep_compositions()
    for model in ("rnn", "transformer"):
        compose_with_hydra([f"model={model}", "logger=none"])


def _represent(arguments: list[str]) -> None:
    """Stand for a process that the server forks: pass signals on, and end as it does."""
    inherited = [
        number
        for number in map(int, os.listdir("/proc/self/fd"))  # noqa: PTH208
        if _is_inheritable(number)
    ]
    server, process = _fork(
        arguments,
        files={number: number for number in inherited},
        folder=str(Path.cwd()),
        environment=dict(os.environ),
        new_session=os.getsid(0) == os.getpid(),
    )
    for number in SIGNALS:
        signal.signal(number, lambda number, _: os.kill(process, number))
    status, _ = _read(server)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


def _is_inheritable(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


def _serve(folder: Path) -> dict[str, Any]:
    """Fork for each request until the process of the test session ends. In the forked process, return the request."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" represent "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    session = os.pidfd_open(int((folder / "session").read_text(encoding="utf-8")))
    cpu: Counter[str | None] = Counter()
    processes: dict[int, tuple[int, socket.socket, str | None]] = {}  # by the file descriptor that tells their end
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(str(folder / "binding"))
        listener.listen(64)
        (folder / "binding").rename(folder / "socket")
        selector.register(session, selectors.EVENT_READ, "session")
        selector.register(listener, selectors.EVENT_READ, "request")
        while True:
            for key, _ in selector.select():
                if key.data == "session":
                    for process, _, _ in processes.values():
                        os.kill(process, signal.SIGKILL)
                    sys.exit()
                if key.data == "request":
                    connection, _ = listener.accept()
                    _, received, _, _ = socket.recv_fds(connection, 1, 250)
                    try:
                        request = _read(connection)
                    except EOFError:  # the client only wanted to know whether the server runs
                        connection.close()
                        continue
                    if not (process := os.fork()):
                        selector.close()
                        for used in (listener, connection, *(other for _, other, _ in processes.values())):
                            used.close()
                        for number in (session, *processes):
                            os.close(number)
                        return {**request, "files": dict(zip(request["files"], received, strict=True))}
                    for number in received:
                        os.close(number)
                    if not cpu:
                        cpu[request["user"]] = time.process_time()
                    end = os.pidfd_open(process)
                    processes[end] = process, connection, request["user"]
                    selector.register(end, selectors.EVENT_READ, end)
                    selector.register(connection, selectors.EVENT_READ, end)
                    _write(connection, process)
                elif isinstance(key.fileobj, socket.socket):
                    process, connection, _ = processes.get(key.data, (0, None, None))
                    if connection is key.fileobj:  # the process that asked for this one has ended
                        os.kill(process, signal.SIGKILL)
                        selector.unregister(connection)
                else:
                    process, connection, user = processes.pop(key.data)
                    _, status, usage = os.wait4(process, 0)
                    cpu[user] += usage.ru_utime + usage.ru_stime
                    selector.unregister(key.data)
                    os.close(key.data)
                    if connection.fileno() in selector.get_map():
                        selector.unregister(connection)
                    with contextlib.suppress(OSError):
                        _write(connection, (os.waitstatus_to_exitcode(status), cpu[user]))
                    connection.close()


def _become(request: dict[str, Any]) -> None:
    """Make this forked process the fresh interpreter that a request describes."""
    moved = {number: fcntl.fcntl(received, fcntl.F_DUPFD, 512) for number, received in request["files"].items()}
    for number in request["files"].values():
        os.close(number)
    for number, received in moved.items():
        os.dup2(received, number)
        os.close(received)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update({**request["environment"], FOLDER: str(folder)})
    sys.executable = f"{folder}/python"
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number not in moved:
            os.close(number)
            setattr(sys, name, None)
            setattr(sys, f"__{name}__", None)
    for stream in filter(None, (sys.stdin, sys.stdout)):
        stream.reconfigure(line_buffering=stream.isatty())
    random.seed()
    numpy.random.seed()
    rank_zero_only.rank = _get_rank() or 0  # Lightning reads the environment when it is imported


def _run(arguments: list[str]) -> None:
    """Run the program that the arguments of an interpreter name."""
    if arguments[0] == "-u":
        sys.stdout.reconfigure(write_through=True)
        del arguments[0]
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in sys.path]
    if arguments[0] == "-m":
        sys.argv, sys.path[:0] = arguments[1:], [str(Path.cwd()), *path]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv, sys.path[:0] = ["-c", *arguments[2:]], ["", *path]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    else:
        assert not arguments[0].startswith("-"), f"a forked interpreter has no option {arguments[0]}"
        sys.argv, sys.path[:0] = arguments, [str(Path(arguments[0]).resolve().parent), *path]
        runpy.run_path(sys.argv[0], run_name="__main__")


def _exit_quickly() -> None:
    """End the process after its other exit handlers: the rest of Python's cleaning up takes half a second."""
    if status is not None and not torch.distributed.is_initialized():  # a group left open may abort the process
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "represent":
        _represent(sys.argv[2:])
    del sys.path[0]  # the folder of this file

    import random
    import runpy
    import types

    status: int | None = None
    atexit.register(_exit_quickly)  # the first that is registered runs last

    import numpy
    import torch
    from lightning.fabric.utilities.rank_zero import _get_rank, rank_zero_only

    folder = Path(os.environ[FOLDER])
    for module in PRELOADED:
        importlib.import_module(module)
    _keep_compositions()
    gc.collect()
    gc.freeze()
    _become(wanted := _serve(folder))
    try:
        _run(wanted["arguments"])
        status = 0
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        raise
    except Exception:
        status = 1
        raise
