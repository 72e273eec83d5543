"""Train models that are broken on purpose, and healthy ones, and record what heed says about each.

    python scripts/broken_runs.py broken --train train.en train.de --valid val.en val.de --out broken.jsonl
    python scripts/broken_runs.py healthy --train train.en train.de --valid val.en val.de --out healthy.jsonl
    python scripts/broken_runs.py table broken.jsonl > docs/results/broken_runs.json
    python scripts/broken_runs.py table healthy.jsonl > docs/results/healthy_runs.json

Each run is a tiny model that trains for about a minute on a CPU. `--only NAME…` selects runs. A line is appended to the
file for each run.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

Lines = tuple[list[str], list[str]]
"""Sources and targets."""
Change = Callable[[Lines, random.Random], Lines]

TINY = {
    "transformer": ["model=transformer", "model.d_model=64", "model.d_ff=128", "model.encoder_layers=2",
                    "model.decoder_layers=2", "model/positions=sinusoidal", "optimizer=adamw", "optimizer.lr=2e-3"],
    "rnn": ["model=rnn", "model.d_model=64", "model.d_embedding=64", "model.dropout=0.1", "optimizer.lr=3e-3"],
}  # fmt: skip
COMMON = ["trainer=cpu", "logger=none", "test=false", "data.test=null", "search=greedy", "data.max_eval=200",
          "batching.batch_tokens=300", "trainer.max_epochs=null", "trainer.max_steps=320", "trainer.validate_every=80",
          "schedule=inverse_sqrt", "schedule.warmup_steps=40", "callbacks.attention_maps=null",
          "callbacks.early_stopping.patience=null"]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A run that is broken on purpose.

    Args:
        breaks: what is wrong, for the documentation.
        names: diagnoses that name the cause.
        options: of the run.
        change: of the training text.
        pairs: of the training text, before the change.
        family: the model; None: that of the command line.
    """

    breaks: str
    names: Sequence[str]
    options: Sequence[str] = ()
    change: Change = lambda lines, _: lines
    pairs: int | None = None
    family: str | None = None


def swap(share: float) -> Change:
    """Swap the sides of some pairs."""

    def change(lines: Lines, rng: random.Random) -> Lines:
        pairs = [(tgt, src) if rng.random() < share else (src, tgt) for src, tgt in zip(*lines, strict=True)]
        return [src for src, _ in pairs], [tgt for _, tgt in pairs]

    return change


def shift(share: float) -> Change:
    """Move the first targets one line up."""

    def change(lines: Lines, _: random.Random) -> Lines:
        src, tgt = lines
        stop = round(share * len(tgt))
        return src, tgt[1:stop] + tgt[:1] + tgt[stop:]

    return change


def copy_source(share: float) -> Change:
    """Replace some targets by their sources."""

    def change(lines: Lines, rng: random.Random) -> Lines:
        return lines[0], [src if rng.random() < share else tgt for src, tgt in zip(*lines, strict=True)]

    return change


def shuffle(share: float) -> Change:
    """Exchange some targets at random."""

    def change(lines: Lines, rng: random.Random) -> Lines:
        src, tgt = lines
        rows = [row for row in range(len(tgt)) if rng.random() < share]
        moved = dict(zip(rows, rng.sample(rows, len(rows)), strict=True))
        return src, [tgt[moved.get(row, row)] for row in range(len(tgt))]

    return change


def each(function: Callable[[str], str]) -> Change:
    """Apply a function to each sentence."""
    return lambda lines, _: ([*map(function, lines[0])], [*map(function, lines[1])])


def cut(share: float) -> Change:
    """Cut some targets to a third of their words."""

    def change(lines: Lines, rng: random.Random) -> Lines:
        words = [tgt.split() for tgt in lines[1]]
        return lines[0], [" ".join(tgt[: len(tgt) // 3 + 1] if rng.random() < share else tgt) for tgt in words]

    return change


def other_script(lines: Lines, _: random.Random) -> Lines:
    """Write the targets in Cyrillic letters."""
    return lines[0], ["".join(chr(0x430 + ord(c) % 32) if c.isalpha() else c for c in line) for line in lines[1]]


def misread(line: str) -> str:
    """Read UTF-8 as Latin-1."""
    return line.encode().decode("latin-1").replace("\x85", " ").replace("\x84", " ")


BROKEN = {
    "swapped languages": Case("a third of the lines swapped", ["swapped"], change=swap(0.33)),
    "swapped validation": Case("all training lines swapped", ["swapped_validation"], change=swap(1.0)),
    "shifted lines": Case("targets one line too early", ["shifted"], change=shift(1.0)),
    "shifted range": Case(
        "targets of the first half one line too early", ["shifted_lines", "shifted"], change=shift(0.5)
    ),
    "label noise": Case("60 % of the targets exchanged", ["unrelated"], change=shuffle(0.6)),
    "untranslated lines": Case("a quarter of the targets untranslated", ["untranslated"], change=copy_source(0.25)),
    "wrong script": Case("training targets in another script", ["script"], change=other_script),
    "wrong encoding": Case("UTF-8 read as Latin-1", ["encoding"], change=each(misread)),
    "lower case": Case("training text in lower case", ["upper_case"], change=each(str.lower)),
    "duplicated corpus": Case(
        "each pair ten times, and kept",
        ["duplicates"],
        ["data.cleaning.drop_duplicates=false"],
        lambda lines, _: (lines[0] * 10, lines[1] * 10),
        pairs=600,
    ),
    "learning rate × 100": Case("`optimizer.lr=0.2`", ["high_learning_rate", "rising_loss"], ["optimizer.lr=0.2"]),
    "learning rate × 100, RNN": Case(
        "`optimizer.lr=0.3`", ["high_learning_rate", "rising_loss"], ["optimizer.lr=0.3"], family="rnn"
    ),
    "learning rate ÷ 1000": Case("`optimizer.lr=2e-6`", ["low_learning_rate"], ["optimizer.lr=2e-6"]),
    "no warm-up": Case(
        "post-norm, 4 + 4 layers, no warm-up",
        ["no_warm_up", "high_learning_rate", "rising_loss"],
        [
            "schedule.warmup_steps=0",
            "model.norm=post",
            "model.encoder_layers=4",
            "model.decoder_layers=4",
            "optimizer.lr=5e-3",
        ],
        family="transformer",
    ),
    "long warm-up": Case(
        "600 pairs with a warm-up of 4,000 steps", ["warm_up"], ["schedule.warmup_steps=4000"], pairs=600
    ),
    "large vocabulary": Case(
        "6,500 subwords for 2,000 pairs", ["vocabulary"], ["tokenizer.vocab_size=6500"], pairs=2_000
    ),
    "short training": Case(
        "100 steps", ["few_steps", "step_size"], ["trainer.max_steps=100", "trainer.validate_every=50"]
    ),
    "large steps": Case(
        "600 pairs, `batching.batch_tokens=25000`",
        ["step_size"],
        [
            "batching.batch_tokens=25000",
            "trainer.max_steps=null",
            "trainer.max_epochs=40",
            "trainer.validate_every=20",
            "schedule.warmup_steps=5",
        ],
        pairs=600,
    ),
    "short translations": Case(
        "`search.max_length_factor=0.4`",
        ["length_limit"],
        ["search.max_length_factor=0.4", "search.max_length_extra=1"],
    ),
    "cut targets": Case("targets cut to a third", ["short_targets", "cleaning"], change=cut(1.0)),
    "some cut targets": Case(
        "half of the targets cut to a third", ["short_targets", "short_translations"], change=cut(0.5)
    ),
    "short sentences": Case("`data.cleaning.max_chars=25`", ["short_text", "cleaning"], ["data.cleaning.max_chars=25"]),
    "dropout": Case("`model.dropout=0.9`", ["dropout"], ["model.dropout=0.9"]),
    "memorising": Case(
        "300 pairs, many epochs without dropout",
        ["memorised", "few_pairs"],
        ["model.dropout=0", "module.label_smoothing=0", "trainer.max_steps=600", "batching.batch_tokens=400"],
        pairs=300,
    ),
}


def read(file: Path) -> list[str]:
    """Return the lines of a file."""
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def train(
    name: str, case: Case, lines: Lines, arguments: argparse.Namespace, *, seed: int, model: str, folder: Path
) -> dict[str, Any]:
    """Train the model of a case, and return what heed said."""
    from heed import launch
    from heed.errors import HeedError
    from heed.launch.compose import compose

    pairs = case.pairs or arguments.pairs
    rng = random.Random(seed)
    rows = rng.sample(range(len(lines[0])), pairs)
    text = case.change(([lines[0][row] for row in rows], [lines[1][row] for row in rows]), rng)
    for side, part in zip(("src", "tgt"), text, strict=True):
        (folder / f"train.{side}").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    family = case.family or model
    data = ["data=files", f"data.train=[['{folder}/train.src','{folder}/train.tgt']]",
            f"data.valid=[['{arguments.valid[0]}','{arguments.valid[1]}']]", f"cache_dir={folder}/cache"]  # fmt: skip
    run, start, error = folder / "run", time.monotonic(), ""
    options = [*data, *COMMON, *TINY[family], f"seed={seed}", *case.options]
    try:
        launch.train(compose(options, folder=run))
    except HeedError as stopped:
        error = str(stopped)
    found = run / "diagnoses.jsonl"
    said = [json.loads(line) for line in read(found)] if found.exists() else []
    results = json.loads((run / "results.json").read_text(encoding="utf-8")) if (run / "results.json").exists() else {}
    return {
        "run": name, "breaks": case.breaks, "corpus": arguments.corpus, "model": family, "seed": seed,
        "pairs": pairs, "options": list(case.options), "expected": list(case.names), "said": said, "error": error,
        "bleu": round(results["valid"]["bleu"], 1) if results else None, "seconds": round(time.monotonic() - start),
    }  # fmt: skip


def table(file: Path) -> dict[str, Any]:
    """Return the runs of a file as a table for the documentation."""
    runs = [json.loads(line) for line in read(file)]
    rows = {}
    for number, run in enumerate(runs):
        names = [entry["name"] for entry in run["said"]]
        common = {"corpus": f"{run['corpus']}, {run['pairs']:,} pairs", "model": run["model"], "bleu": run["bleu"]}
        if run["expected"]:
            messages = [entry["message"] for entry in run["said"] if entry["name"] in run["expected"]]
            others = ", ".join(f"`{name}`" for name in names if name not in run["expected"])
            rows[str(number)] = {
                "run": run["breaks"],
                **common,
                "said": " ".join(messages) or "**nothing**",
                "others": others,
            }
        else:
            rows[str(number)] = {
                **common,
                "seed": run["seed"],
                "said": ", ".join(f"`{name}`" for name in names) or "nothing",
            }
    columns = {"run": "what is broken", "corpus": "corpus", "model": "model", "seed": "seed", "bleu": "BLEU",
               "said": "what heed says", "others": "and"}  # fmt: skip
    named = sum(bool({entry["name"] for entry in run["said"]} & {*run["expected"]}) for run in runs)
    is_broken = bool(runs[0]["expected"])
    return {
        "what": f"Runs that are {'broken on purpose' if is_broken else 'healthy'}, and what heed says about them. BLEU "
        "on the first 200 validation pairs.",
        "command": f"python scripts/broken_runs.py {'broken' if is_broken else 'healthy'} …",
        "machine": f"two cores of an AMD EPYC, torch {version('torch')} (CPU), with other load",
        "date": f"{datetime.now():%Y-%m-%d}",
        "seeds": ", ".join(map(str, sorted({run["seed"] for run in runs}))),
        "columns": {name: title for name, title in columns.items() if name in rows["0"]},
        "rows": rows,
        "values": {"runs": len(runs), **({"named": named} if is_broken else {})},
    }


def main() -> None:
    """Make the runs, or the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="what", required=True)
    for kind in ("broken", "healthy"):
        options = kinds.add_parser(kind)
        options.add_argument("--train", nargs=2, type=Path, required=True, metavar="FILE")
        options.add_argument("--valid", nargs=2, type=Path, required=True, metavar="FILE")
        options.add_argument("--out", type=Path, required=True, metavar="FILE")
        options.add_argument("--corpus", default="", metavar="NAME", help="its name in the table")
        options.add_argument("--model", nargs="+", choices=sorted(TINY), default=["transformer"])
        options.add_argument("--seed", nargs="+", type=int, default=[1], metavar="N")
        options.add_argument(
            "--pairs", type=int, default=6_000, metavar="N", help="size of a random sample to train on"
        )
        options.add_argument("--only", nargs="*", metavar="NAME")
    kinds.add_parser("table").add_argument("file", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.what == "table":
        print(json.dumps(table(arguments.file), ensure_ascii=False, indent=1))
        return
    lines = read(arguments.train[0]), read(arguments.train[1])
    cases = BROKEN if arguments.what == "broken" else {"healthy": Case("", [])}
    chosen = {name: case for name, case in cases.items() if not arguments.only or name in arguments.only}
    for seed, model, (name, case) in product(arguments.seed, arguments.model, chosen.items()):
        with tempfile.TemporaryDirectory() as folder:
            result = train(name, case, lines, arguments, seed=seed, model=model, folder=Path(folder))
        with arguments.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
        print(f"{name}: {[entry['name'] for entry in result['said']]}", file=sys.stderr)


if __name__ == "__main__":
    main()
