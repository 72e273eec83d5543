"""Check that a refactoring does not change results: train five small models and compare digests of their results.

    python scripts/oracle.py --write            write scripts/oracle/reference.json
    python scripts/oracle.py                    train again and compare with it
    python scripts/oracle.py --against FILE     compare with FILE instead of training again
    python scripts/oracle.py --names FILE       after renaming parameters; FILE is JSON, {old name: new name}

On the machine and torch version of the reference, all bits must be equal. Elsewhere rounding differs: numbers are
compared with a tolerance, and translations not at all, because the search may find other ones. To check a refactoring
there, first write a reference (``--reference FILE``). The exit status is 1 if anything differs.

Each variant is trained by ``train.py`` for 200 steps in fp32 on one thread, and translates by ``heed translate``. The
digest of all weights does not depend on the names of the parameters.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grammar.corpus import generate
from grammar.writing import write
from soak.process import run as run_process
from soak.process import train_command

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = Path(__file__).resolve().parent / "oracle" / "reference.json"
STEPS = 200
RELATIVE, ABSOLUTE = 1e-2, 1e-3
"""Tolerance for norms and losses between machines."""
TRANSLATIONS = ("greedy", "beam")
"""Quantities that are compared on the same machine only."""

SIZES = {"train": 1200, "valid": 40, "test": 40, "long": 20}
"""Pairs of the corpus, which `grammar` writes: data=synthetic of these sizes has other pairs."""
COMMON = (
    *(f"data.{split}={size}" for split, size in SIZES.items()),
    "tokenizer.vocab_size=500",
    "batching.batch_tokens=600",
    "batching.device_tokens=800",
    "schedule.warmup_steps=40",
    "trainer=cpu",
    "trainer.log_every=1",
    "search=beam",
    "name=oracle",
)
TRANSFORMER = (
    "model.d_model=64",
    "model.d_ff=128",
    "model.num_heads=4",
    "model.encoder_layers=2",
    "model.decoder_layers=2",
    "model.dropout=0.1",
    "optimizer.lr=5e-3",
)
VARIANTS = {
    "transformer": TRANSFORMER,
    "rnn": ("model=rnn", "model.d_embedding=48", "model.d_model=64", "model.dropout=0.2", "optimizer.lr=5e-3"),
    "muon": (*TRANSFORMER[:-1], "optimizer=muon", "optimizer.lr=1e-2"),
    "r-drop-bpe-dropout": (*TRANSFORMER, "module.r_drop=2.0", "tokenizer.bpe_dropout=0.1"),
    "ema": (*TRANSFORMER, "callbacks.ema.decay=0.95", "weights=ema"),
}


def main() -> int:
    """Write the reference or compare with it.

    Returns:
        Exit status: 1 if anything differs.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the reference instead of comparing with it")
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="the file to write or to compare with")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare the reference with this file")
    parser.add_argument("--names", type=Path, metavar="FILE", help="JSON: old parameter names to new ones")
    parser.add_argument("--only", action="append", choices=VARIANTS, help="a variant; may be given several times")
    arguments = parser.parse_args()
    names = _load(arguments.names) if arguments.names else {}
    if arguments.write:
        arguments.reference.parent.mkdir(parents=True, exist_ok=True)
        arguments.reference.write_text(json.dumps(measure(arguments.only), indent=1) + "\n", encoding="utf-8")
        return 0
    reference = _load(arguments.reference)
    ours = _load(arguments.against) if arguments.against else measure(arguments.only)
    if arguments.only:
        reference["variants"] = {name: reference["variants"][name] for name in arguments.only}
    exact = reference["machine"] == ours["machine"]
    if not exact:
        print(
            "The reference was made on another machine or version; comparing with a tolerance "
            f"({RELATIVE:g} relative). This detects only large errors.\n  reference: {reference['machine']}\n"
            f"  here:      {ours['machine']}"
        )
    found = list(differences(reference["variants"], ours["variants"], names=names, exact=exact))
    for line in found:
        print(line)
    what = "equal to the last bit" if exact else "equal within the tolerance"
    print(f"{len(found)} differences" if found else f"{what}: {', '.join(ours['variants'])}")
    return 1 if found else 0


def _load(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def measure(only: list[str] | None = None, *, steps: int = STEPS, seed: int = 1) -> dict[str, Any]:
    """Train variants and return their digests, with a description of the machine."""
    names = only or list(VARIANTS)
    with tempfile.TemporaryDirectory(prefix="heed-oracle-") as folder:
        for split, examples in generate(seed=1, **SIZES).items():
            write(Path(folder) / "corpus", split, examples)
        variants = {
            name: _train_variant(name, Path(folder) / name, Path(folder) / "corpus", steps=steps, seed=seed)
            for name in names
        }
    commit = subprocess.run(
        ("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return {"commit": commit.stdout.strip(), "machine": machine(), "variants": variants}


def machine() -> dict[str, str]:
    """Return the facts on which rounding depends: processor, instruction set and versions."""
    import numpy as np
    import torch

    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    pairs = (line.partition(":") for line in reversed(lines))
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    return {
        "processor": facts.get("model name", platform.processor()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "flags": _digest(" ".join(sorted(facts.get("flags", "").split())).encode()),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _train_variant(name: str, folder: Path, corpus: Path, *, steps: int, seed: int) -> dict[str, Any]:
    """Train one variant and return its digests."""
    limits = (
        f"data.root={corpus}",
        f"trainer.max_steps={steps}",
        f"trainer.validate_every={max(1, steps // 2)}",
        f"seed={seed}",
    )
    print(f"oracle: {name}", file=sys.stderr, flush=True)
    attempt = run_process(train_command(*COMMON, *VARIANTS[name], *limits), folder)
    if attempt.status != 0:
        raise SystemExit(f"{name}: exit status {attempt.status}\n{attempt.stderr}")
    (finished,) = (path.parent for path in folder.glob("runs/oracle/*/results.json"))
    results = json.loads((finished / "results.json").read_text(encoding="utf-8"))
    losses = [event["losses"] for event in attempt.events if event["event"] == "step"]
    numbers = [[float.fromhex(value) for value in step.values()] for step in losses[:: max(1, steps // 10)]]
    scores = {split: results["tests"][split] for split in sorted(results["tests"])} | {"valid": results["valid"]}
    return {
        **_weights(finished),
        "losses": _quantity(json.dumps(losses).encode(), numbers),
        "metrics.csv": {"digest": _digest((finished / "metrics.csv").read_bytes())},
        "scores": _quantity(json.dumps(scores, sort_keys=True).encode(), [[one["loss"]] for one in scores.values()]),
        **_decode(finished),
    }


def _quantity(content: bytes, numbers: list[list[float]]) -> dict[str, Any]:
    """Return the digest of a quantity, and the numbers that are compared between machines."""
    return {"digest": _digest(content), "numbers": numbers}


def _weights(finished: Path) -> dict[str, Any]:
    """The digest of each parameter, and a digest of all parameters that does not depend on their names."""
    from safetensors.torch import load_file

    tensors = load_file(finished / "model" / "model.safetensors")
    digests = {
        name: _digest(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.contiguous().numpy().tobytes())
        for name, tensor in sorted(tensors.items())
    }
    norms = sorted(float(tensor.double().norm()) for tensor in tensors.values())
    total = math.sqrt(sum(norm * norm for norm in norms))
    return {"weights": _quantity("\n".join(sorted(digests.values())).encode(), [[total]]), "parameters": digests}


HEED = """
import json, os, sys
from heed.cli import main
for arguments, source, output in json.loads(sys.argv[1]):
    os.dup2(os.open(source, os.O_RDONLY), 0)
    sys.stdout.flush()
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    sys.stdin = open(0, closefd=False)
    if status := main(arguments):
        sys.exit(status)
"""
"""A program that runs several `heed` commands in one process, to import torch once: (arguments, stdin, stdout) of each
as JSON."""


def _decode(finished: Path) -> dict[str, Any]:
    """Digests of the hypotheses of greedy and beam search on the test set, and of log p of the references."""
    files = finished / "translations"
    source, reference = str(files / "test.src"), str(files / "test.ref")
    model = ("--model", str(finished))
    commands = {
        "greedy": ("translate", *model, "--engine", "heed", "--beam", "1", "--n-best", "1"),
        "beam": ("translate", *model, "--engine", "heed", "--beam", "4", "--n-best", "4"),
        "log probabilities": ("score", *model, "--src", source, "--tgt", reference),
    }
    outputs = {name: finished / f"{name}.txt" for name in commands}
    given = json.dumps([(command, source, str(outputs[name])) for name, command in commands.items()])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", HEED, given], env=environment, check=True)
    found = {}
    for name, path in outputs.items():
        text = path.read_text(encoding="utf-8")
        numbers = [float(line.rpartition("|||")[2]) for line in text.split("\n")[:-1]]
        found[name] = _quantity(text.encode(), [[sum(numbers) / len(numbers)]])
    return found


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:32]


def differences(
    reference: Mapping[str, Any], ours: Mapping[str, Any], *, names: Mapping[str, str], exact: bool
) -> Iterator[str]:
    """Describe each variant and quantity that differs.

    Args:
        names: old parameter names to new ones. If the parameters of both sides do not have the same names after this,
            only the digest of all weights is compared, which does not depend on names.
        exact: compare bits; otherwise compare norms, losses and scores within the tolerance.
    """
    for name in sorted({*reference, *ours}):
        if name not in reference or name not in ours:
            yield f"{name}: only in one of the two"
            continue
        before, after = reference[name], ours[name]
        for quantity in sorted({*before, *after} - {"parameters"}):
            if quantity not in before or quantity not in after:
                yield f"{name}: {quantity} only in one of the two"
            elif exact and before[quantity]["digest"] != after[quantity]["digest"]:
                yield f"{name}: {quantity} differs"
            elif exact or quantity in TRANSLATIONS:
                continue
            elif not _close(before[quantity].get("numbers", []), after[quantity].get("numbers", [])):
                yield f"{name}: {quantity} differs by more than the tolerance"
        if exact:
            renamed = {names.get(parameter, parameter): digest for parameter, digest in before["parameters"].items()}
            if renamed.keys() == after["parameters"].keys():
                different = [key for key, digest in renamed.items() if digest != after["parameters"][key]]
                yield from (f"{name}: parameter {key} differs" for key in sorted(different))
            elif names:
                odd = sorted(renamed.keys() ^ after["parameters"].keys())
                yield f"{name}: parameters only in one of the two: {', '.join(odd)}"


def _close(ours: list[list[float]], theirs: list[list[float]]) -> bool:
    if len(ours) != len(theirs):
        return False
    pairs = zip((n for row in ours for n in row), (n for row in theirs for n in row), strict=True)
    return all(math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in pairs)


if __name__ == "__main__":
    sys.exit(main())
