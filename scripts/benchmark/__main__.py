"""How fast heed is, measured beside what one would use instead.

    python scripts/bench.py train  [--peers torch,hf,joey] [--data DIR] [--sizes d256,tiny] [--model rnn] [--threads 1]
    python scripts/bench.py decode [--peers hf,ctranslate2] [--model RUN]
    python scripts/bench.py plan
    python scripts/bench.py memory

Ours and the peers' turns alternate, round by round, on the same sentences: only ratios within one call count. Each
command writes its section of bench.json (--out). --data DIR holds Multi30k's files, as data.root; without it the
built-in corpus is used. A peer that is not installed is named as skipped: pip install 'heed[bench]'.
"""

import argparse
import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from heed.errors import HeedError

COMMANDS = {"train": "training", "decode": "decoding", "plan": "planning", "memory": "memory"}
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
PEERS = {"train": ("torch", "hf", "joey"), "decode": ("hf", "ctranslate2"), "plan": (), "memory": ()}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    command = argv[0] if argv and argv[0] in COMMANDS else None
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", help="with commas; default: all that can do it")
    parser.add_argument("--data", type=Path, help="a folder with Multi30k's files, as data.root")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: this process's own seconds, for a machine that others use (one thread only)",
    )
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    if command is None:
        parser.parse_args(argv)
        return
    # Threads are counted when torch starts, which the commands' modules do.
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads_of(argv))
    module = import_module(f"benchmark.{COMMANDS[command]}")
    module.add_arguments(parser)
    arguments = parser.parse_args(argv)
    arguments.peers = PEERS[command] if arguments.peers is None else tuple(filter(None, arguments.peers.split(",")))
    if unknown := [peer for peer in arguments.peers if peer not in PEERS[command]]:
        raise HeedError(f"--peers {','.join(unknown)}: {command} knows {', '.join(PEERS[command]) or 'none'}.")

    if arguments.clock == "cpu" and arguments.threads > 1:
        raise HeedError("--clock cpu adds up the threads' seconds: give --threads 1, or --clock wall.")

    import torch

    torch.set_num_threads(arguments.threads)
    arguments.now = CLOCKS[arguments.clock]
    record(arguments.out, {**module.run(arguments), f"{command}_clock": arguments.clock})


def threads_of(argv: list[str]) -> int:
    """What --threads will be parsed to."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, default=1)
    return int(parser.parse_known_args(argv)[0].threads)


def record(path: Path, sections: dict[str, object]) -> None:
    """Put these sections into bench.json beside those of other commands."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    skipped = {**before.get("skipped", {}), **dict(sections.pop("skipped", {}))}  # type: ignore[call-overload]
    machine = f"{os.cpu_count()} × {platform.processor() or platform.machine()}, {platform.system()}"
    whole = {**before, "machine": machine, **sections, "skipped": skipped}
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HeedError as error:
        print(f"bench.py: {error}", file=sys.stderr)
        sys.exit(2)
