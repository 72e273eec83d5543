"""`heed export` that is killed leaves no export that is taken for whole, and can be repeated."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forkserver
from tests.export.models import transformer, write_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.reliability,
    pytest.mark.skipif(sys.platform == "win32", reason="forks processes"),
]

KILLED_AT_EACH_WRITE = """
import os, sys
from pathlib import Path
from heed.cli import main

run, out = sys.argv[1], Path(sys.argv[2])
command = ["export", run, "--to", "ctranslate2", "--out", str(out)]
sys.stdout = open(os.devnull, "w")

def export(end):
    # Ends with status 9, without cleaning up, before it opens, makes or renames its file number `end` near `out`.
    if not (process := os.fork()):
        writes = 0
        def count(event, arguments):
            nonlocal writes
            writes_file = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if (writes_file or event in ("os.mkdir", "os.rename")) and str(arguments[0]).startswith(str(out.parent)):
                writes += 1
                if writes == end:
                    os._exit(9)
        sys.addaudithook(count)
        os._exit(main(command))
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

from heed.export import parity, to_ctranslate2
import ctranslate2
end = 1
while (status := export(end)) == 9:
    assert not out.exists(), (end, sorted(out.iterdir()))
    end += 1
assert status == 0, status
print(end, file=sys.stderr)
"""


def test_an_export_that_is_killed_at_any_write_is_absent_and_can_be_repeated(tmp_path: Path) -> None:
    run, out = write_run(tmp_path / "run", transformer()), tmp_path / "exports" / "export"
    command = [sys.executable, "-c", KILLED_AT_EACH_WRITE, str(run), str(out)]
    done = forkserver.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # The folder of exports, the export, its files, its name.
    assert int(done.stderr.split()[-1]) > len(list(out.iterdir())) + 2
    assert list(out.parent.iterdir()) == [out], "each export removes what the killed one before it left"


@pytest.mark.full
@pytest.mark.parametrize("target", ["ctranslate2", "argos", "huggingface"])
def test_an_export_that_is_killed_at_random_is_absent_or_whole(tmp_path: Path, target: str) -> None:
    run, out = write_run(tmp_path / "run", transformer(norm="post")), tmp_path / "export"
    command = [sys.executable, "-m", "heed", "export", str(run), "--to", target, "--out", str(out)]
    start = time.monotonic()
    forkserver.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    whole = {path.relative_to(out) for path in out.rglob("*")}
    rng = random.Random(1)
    for number in range(10):
        out = tmp_path / f"{number}"
        command[-1] = str(out)
        with forkserver.Popen(command, stdout=subprocess.DEVNULL) as process:
            time.sleep(rng.uniform(0, seconds))
            process.kill()  # no error if it has ended
        paths = {path.relative_to(out) for path in out.rglob("*")}
        found = {path for path in paths if not any(part.endswith(".partial") for part in path.parts)}
        # Argos' package is a file in the folder.
        assert found in (set(), whole), found
        if not found:
            forkserver.run(command, check=True, stdout=subprocess.DEVNULL)
            assert whole <= {path.relative_to(out) for path in out.rglob("*")}
