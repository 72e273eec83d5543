"""Translate a long file with ``heed translate``: order, memory over time, and continuation after a kill.

    python scripts/long_file.py RUN [--lines 100000] [OPTIONS OF heed translate]

The lines are the run's validation sentences, over and over. Prints a JSON object; exits with 1 if something is wrong.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

SHARES = (0.1, 0.5, 1.0)
"""Where the resident memory is measured."""
KILL_AT = 0.4
"""Where the second translation is killed."""
GROWTH = 1.05
"""Largest accepted ratio of the memory at the end to that at 10 %."""


def main() -> int:
    """Run the check and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--lines", type=int, default=100_000)
    args, options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        found = check(args.run, args.lines, options, Path(folder))
    print(json.dumps(found, indent=2))
    return 0 if found["ordered"] and found["resumed_equal"] and found["growth"] <= GROWTH else 1


def check(run: Path, lines: int, options: list[str], folder: Path) -> dict[str, Any]:
    """Translate the file in one go, and again with a kill in between, and compare."""
    source, whole, killed = (folder / name for name in ("source", "whole", "killed"))
    sentences = (run / "translations" / "valid.src").read_text(encoding="utf-8").splitlines()
    source.write_text("".join(f"{line}\n" for line in islice(cycle(sentences), lines)), encoding="utf-8")
    command = [sys.executable, "-m", "heed", "translate", "--model", str(run), "--input", str(source), *options]

    start = time.perf_counter()
    memory = translate_and_measure([*command, "--output", str(whole)], whole, lines)
    seconds = time.perf_counter() - start
    kill_at(KILL_AT, [*command, "--output", str(killed)], killed, lines)
    partial = count_lines(killed.with_name(f"{killed.name}.partial"))
    subprocess.run([*command, "--output", str(killed), "--resume"], check=True, stderr=subprocess.DEVNULL)

    first = dict(zip(sentences, whole.read_text(encoding="utf-8").splitlines(), strict=False))
    expected = [first[line] for line in islice(cycle(sentences), lines)]
    return {
        "lines": lines,
        "seconds": round(seconds, 1),
        "ordered": whole.read_text(encoding="utf-8").splitlines() == expected,
        "resident_mb": {f"{share:.0%}": round(value / 1e6, 1) for share, value in memory.items()},
        "growth": round(memory[1.0] / memory[0.1], 4),
        "killed_after_lines": partial,
        "resumed_equal": whole.read_bytes() == killed.read_bytes(),
    }


def translate_and_measure(command: list[str], output: Path, lines: int) -> dict[float, int]:
    """Run a command; return its resident memory in bytes when it has written each of `SHARES` of the lines."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    found: dict[float, int] = {}
    latest = 0
    while process.poll() is None:
        latest = resident(process.pid) or latest
        done = count_lines(output.with_name(f"{output.name}.partial"))
        for share in SHARES[:-1]:
            if share not in found and done >= share * lines:
                found[share] = latest
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"heed translate ended with status {process.returncode}")
    return {**found, 1.0: latest}


def kill_at(share: float, command: list[str], output: Path, lines: int) -> None:
    """Run a command and kill it when it has written this share of the lines."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and count_lines(output.with_name(f"{output.name}.partial")) < share * lines:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()


def count_lines(path: Path) -> int:
    """Return the number of lines of a file; 0 if it does not exist."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
