"""Break lines of a copy of the code, one at a time, and count the cases that find each."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soak.process import ROOT

MUTANTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
COPIED = ("src", "conf", "data/synthetic", "scripts", "docs", "tests")


def find(name: str, folder: Path, *, cases: int, seed: int) -> tuple[int | None, str]:
    """Break a line, and return the number of cases until one fails, and what it says; None: no case fails."""
    mutant = MUTANTS[name]
    for part in COPIED:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    file = folder / mutant["file"]
    text = file.read_text(encoding="utf-8")
    if text.count(mutant["old"]) != 1:
        raise ValueError(f"{mutant['file']} has the line of {name} {text.count(mutant['old'])} times")
    file.write_text(text.replace(mutant["old"], mutant["new"]), encoding="utf-8")
    command = [sys.executable, "-m", "scripts.soak", "pairs", f"--cases={cases}", f"--seed={seed}", "--until-failure"]
    command += [f"--record={folder}/record.jsonl"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    done = subprocess.run(command, cwd=folder, env=environment, encoding="utf-8", capture_output=True)
    found = re.search(r"failed\n  .*\n((?:  .*\n)+)", done.stdout)
    tried = len(re.findall(r"^\d+ cases, ", done.stdout, re.MULTILINE))
    return (tried, found[1].strip()[:200]) if found else (None, done.stderr[-500:])


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m scripts.soak mutants``; return 1 if a broken line is not found."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak mutants", description=__doc__)
    parser.add_argument("--cases", type=int, default=60, help="of each broken line (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the cases (default: %(default)s)")
    parser.add_argument("--only", action="append", choices=MUTANTS, help="a broken line")
    given = parser.parse_args(arguments)
    missed = 0
    for name in given.only or MUTANTS:
        with tempfile.TemporaryDirectory(prefix="heed-mutant-") as folder:
            tried, text = find(name, Path(folder), cases=given.cases, seed=given.seed)
        print(f"{name}: {f'found by case {tried}' if tried else 'NOT FOUND'}: {text}", flush=True)
        missed += tried is None
    return int(missed > 0)
