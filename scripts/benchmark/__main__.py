"""Benchmark heed against PyTorch's own modules, Hugging Face's Marian, Marian itself and CTranslate2.

    python scripts/benchmark train  [--peers torch,hf,marian] [--data DIR] [--sizes d256,tiny] [--model rnn]
    python scripts/benchmark decode [--peers hf,ctranslate2] [--model RUN]
    python scripts/benchmark prepare [--pairs 100000,1000000] [--processes 1,2]

heed and its peers alternate, round by round, on the same sentences: only ratios within one call are comparable. Each
command writes its section of bench.json (--out). --data DIR holds Multi30k's files, as data.root; without it the
built-in corpus is used. A peer that is not installed is skipped with a message: pip install -e '.[bench]'.
"""

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from heed.errors import HeedError

COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "train": ("training", ("torch", "hf", "marian")),
    "decode": ("decoding", ("hf", "ctranslate2")),
    "prepare": ("preparing", ()),
}
"""Module and peers of each command."""
PACKAGES = ("torch", "transformers", "ctranslate2", "pymarian")
"""The packages of the peers, for their versions."""
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def main(argv: list[str]) -> None:
    """Run one command and write its section of the report.

    Raises:
        HeedError: options contradict each other, or a peer is unknown.
    """
    parser = argparse.ArgumentParser(
        prog="python scripts/benchmark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=COMMANDS)
    command = argv[0] if argv and argv[0] in COMMANDS else None
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", help="comma-separated (default: all peers of the command)")
    parser.add_argument("--data", type=Path, help="folder with Multi30k's files, as data.root")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: seconds of this process only, for a machine that others use (one thread only)",
    )
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    if command is None:
        parser.parse_args(argv)
        return
    # torch reads these variables when a command's module imports it.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(parse_threads(argv))
    name, peers = COMMANDS[command]
    module = import_module(f"benchmark.{name}")
    module.add_arguments(parser)
    arguments = parser.parse_args(argv)
    arguments.peers = peers if arguments.peers is None else tuple(filter(None, arguments.peers.split(",")))
    if unknown := [peer for peer in arguments.peers if peer not in peers]:
        raise HeedError(
            f"--peers {','.join(unknown)} is unknown: the peers of {command} are {', '.join(peers) or 'none'}."
        )
    if arguments.clock == "cpu" and arguments.threads > 1:
        raise HeedError("--clock cpu adds the seconds of all threads: use --threads 1 or --clock wall.")

    import torch

    torch.set_num_threads(arguments.threads)
    arguments.now = CLOCKS[arguments.clock]
    write_sections(arguments.out, {**module.run(arguments), f"{command}_clock": arguments.clock})


def parse_threads(argv: list[str]) -> int:
    """Return the value of --threads, before the other options are known."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, default=1)
    return int(parser.parse_known_args(argv)[0].threads)


def write_sections(path: Path, sections: dict[str, object]) -> None:
    """Write sections to bench.json and keep the sections of other commands."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    skipped = {**before.get("skipped", {}), **dict(sections.pop("skipped", {}))}  # type: ignore[call-overload]
    machine = f"{os.cpu_count()} × {platform.processor() or platform.machine()}, {platform.system()}"
    installed = {name: version(name) for name in PACKAGES if find_spec(name)}
    report = {**before, "machine": machine, "versions": installed, **sections, "skipped": skipped}
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HeedError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        sys.exit(2)
