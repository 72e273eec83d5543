"""``heed serve`` in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import forkserver


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def resident_memory(self) -> int:
        """Return the resident memory in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(*arguments: object, log: Path = Path(os.devnull)) -> Iterator[Server]:
    """Run ``heed serve`` at a free port until the end of the context."""
    command = [
        sys.executable, "-m", "heed", "serve", "--engine", "heed", *map(str, arguments), "--port", "0", "--device",
        "cpu",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        log.open("w") as stderr,
        forkserver.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment) as process,
    ):
        assert process.stdout
        try:
            line = process.stdout.readline()
            address = re.search(r"http://\S+", line)
            assert address, line
            yield Server(address[0], process)
        finally:
            process.kill()
