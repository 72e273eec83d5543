"""Forked interpreters behave as fresh ones where tests rely on it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forkserver

pytestmark = pytest.mark.skipif(forkserver.Popen is subprocess.Popen, reason="forks on Linux only")


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_arguments_environment_folder_and_files(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.argv[1:], [*os.environ], os.getcwd(), input()); sys.exit('bye')"
    done = forkserver.run(
        python(code, "a", "b"), cwd=tmp_path, env={"X": "1"}, input="in", text=True, capture_output=True
    )
    assert done.stdout == f"['a', 'b'] ['X', '{forkserver.FOLDER}'] {tmp_path} in\n"
    assert (done.returncode, done.stderr) == (1, "bye\n")
    everything = forkserver.run(
        python("import os; os.system('echo 1; echo 2 >&2')"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert everything.stdout == "1\n2\n"


def test_scripts_and_modules(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nif __name__ == '__main__': print(beside.NAME, __spec__, sys.argv)\n")
    done = forkserver.run([sys.executable, script, "x"], capture_output=True, text=True)
    assert done.stdout == f"beside None ['{script}', 'x']\n"
    assert (
        forkserver.run([sys.executable, "-m", "heed", "--version"], capture_output=True, text=True).stdout
        == "heed 0.1.0\n"
    )


def test_signals_and_sessions() -> None:
    code = "import os, time; print(os.getpid() == os.getsid(0), flush=True); time.sleep(60)"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with forkserver.Popen(
            python(code), stdout=subprocess.PIPE, stderr=-3, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "True\n"
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.01)
            process.send_signal(number)
        assert process.returncode == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_of_a_forked_process_are_forked(number: int) -> None:
    grandchild = "import time, sys; print('torch' in sys.modules, flush=True); time.sleep(60)"
    child = (
        "import subprocess, sys; process = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=-1, text=True);"
        "print(process.stdout.readline()); process.send_signal(int(sys.argv[2])); print(process.wait());"
        "print(repr(process.stdout.read()))"  # ends when all processes that have it open have ended
    )
    done = forkserver.run(python(child, grandchild, str(int(number))), capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", str(-number), "''"]


def test_cpu_seconds_are_counted() -> None:
    before = forkserver.cpu_seconds
    forkserver.run(python("import time\nwhile time.process_time() < 0.3: pass"), check=True)
    assert forkserver.cpu_seconds - before > 0.29


def test_random_numbers_differ() -> None:
    code = "import random, numpy, os; print(random.random(), numpy.random.random())"
    printed = [forkserver.run(python(code), capture_output=True, text=True).stdout.split() for _ in range(2)]
    assert not {*printed[0]} & {*printed[1]}
    assert "PYTHONHASHSEED" not in os.environ
