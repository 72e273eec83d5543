"""`heed export` that is killed leaves no export that is taken for whole, and can be repeated."""

import sys
from pathlib import Path

import pytest

from tests import forkserver
from tests.exchange.models import transformer, write_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.reliability,
    pytest.mark.skipif(sys.platform == "win32", reason="forks processes"),
]

KILLED_AT_EACH_WRITE = """
import os, sys
from pathlib import Path
from heed.cli import main

run, out, target = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
command = ["export", run, "--to", target, "--out", str(out)]
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

from heed.exchange import parity, to_ctranslate2, to_huggingface
import ctranslate2, transformers
end = 1
while (status := export(end)) == 9:
    assert not out.exists(), (end, sorted(out.iterdir()))
    end += 1
assert status == 0, status
print(end, file=sys.stderr)
"""


@pytest.mark.parametrize("target", ["ctranslate2", pytest.param("huggingface", marks=pytest.mark.full)])
def test_an_export_that_is_killed_at_any_write_is_absent_and_can_be_repeated(tmp_path: Path, target: str) -> None:
    run, out = write_run(tmp_path / "run", transformer(norm="post")), tmp_path / "exports" / "export"
    command = [sys.executable, "-c", KILLED_AT_EACH_WRITE, str(run), str(out), target]
    done = forkserver.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # The folder of exports, the export, its files, its name.
    assert int(done.stderr.split()[-1]) > len(list(out.iterdir())) + 2
    assert list(out.parent.iterdir()) == [out], "each export removes what the killed one before it left"
