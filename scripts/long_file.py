"""Translate a long file with ``heed translate``: order, memory over time, and continuation after a kill.

    python scripts/long_file.py RUN [--lines 100000] [OPTIONS OF heed translate]

The lines are the run's validation sentences, over and over. Prints a JSON object; exits with 1 if something is wrong.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmark.measure import resident_mib

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
    sentences = (run / "translations" / "valid.src").read_text(encoding="utf-8").split("\n")[:-1]
    source.write_text("".join(f"{line}\n" for line in islice(cycle(sentences), lines)), encoding="utf-8")
    command = [sys.executable, "-m", "heed", "translate", "--model", str(run), "--input", str(source), *options]

    start = time.perf_counter()
    memory = dict.fromkeys(SHARES, 0.0)
    for done, process in progress([*command, "--output", str(whole)], whole):
        if mib := resident_mib(process.pid):  # 0: it has just ended
            memory |= {share: mib for share in SHARES if done <= share * lines}
    seconds = time.perf_counter() - start
    for done, process in progress([*command, "--output", str(killed)], killed):
        if done >= KILL_AT * lines:
            process.kill()
    partial = count_lines(killed)
    subprocess.run([*command, "--output", str(killed), "--resume"], check=True, stderr=subprocess.DEVNULL)

    translated = whole.read_text(encoding="utf-8").split("\n")[:-1]
    first = dict(zip(sentences, translated, strict=False))
    return {
        "lines": lines,
        "seconds": round(seconds, 1),
        "ordered": translated == [first[line] for line in islice(cycle(sentences), lines)],
        "resident_mb": {f"{share:.0%}": round(mib * 2**20 / 1e6, 1) for share, mib in memory.items()},
        "growth": round(memory[1.0] / memory[0.1], 4),
        "killed_after_lines": partial,
        "resumed_equal": whole.read_bytes() == killed.read_bytes(),
    }


def progress(command: list[str], output: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a command; every 0.2 seconds, yield the number of lines that it has written, and its process."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            yield count_lines(output), process
            time.sleep(0.2)
    if process.returncode > 0:
        raise SystemExit(f"heed translate ended with status {process.returncode}")


def count_lines(output: Path) -> int:
    """Return the number of lines in the unfinished part of an output; 0 if there is none."""
    partial = output.with_name(f"{output.name}.partial")
    return partial.read_bytes().count(b"\n") if partial.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
