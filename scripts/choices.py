"""Train the default models with one other choice at a time, and find the choices that a corpus does not forgive.

    python scripts/choices.py --runs RUNS --name built-in
    python scripts/choices.py --runs RUNS --name multi30k data=multi30k data.root=DIR data.max_train=3000
    python scripts/choices.py --runs RUNS --name tatoeba data=tatoeba data.root=DIR data.max_train=3000 …

Each choice is trained once for each corpus (seed 1), with the settings that `auto` gives it. Scores are BLEU on the
validation set, by greedy search. A run that RUNS already has is not trained again, and a choice that the corpus has by
default has the default's score. The result is docs/results/choices.json, with a column for each corpus. The exit status
is 1 if a choice that is not in `EXPECTED` is more than 3 BLEU worse than the default.
"""

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from trainings import ROOT, train

from heed.launch.compose import compose

RESULTS = ROOT / "docs" / "results" / "choices.json"
TOLERANCE = 3.0
"""BLEU."""

SCHEDULES = ("schedule=inverse_sqrt", "schedule=cosine", "schedule=constant")
CHOICES: Mapping[str, Sequence[str]] = {
    "transformer": (
        "", "optimizer=adamw", "optimizer=muon", *SCHEDULES,
        *(f"model/positions={kind}" for kind in ("sinusoidal", "rotary", "relative", "alibi", "learned", "none")),
        "model/self_attention=parameter_free",
        *(f"model.self_attention.score={score}" for score in ("dot", "general", "additive")),
        *(f"model.cross_attention.score={score}" for score in ("dot", "general", "additive")),
        "model.norm=post", "model.norm_kind=rms", "model.activation=gelu", "model.activation=swiglu",
        "model.tie_embeddings=false", "module.r_drop=0", "module.r_drop=5", "tokenizer=unigram",
        "tokenizer.bpe_dropout=0.1", "callbacks.ema.decay=0.999 weights=ema",
    ),
    "rnn": (
        "", "optimizer=muon", "optimizer=sgd schedule=constant", *SCHEDULES, "model.cell=gru", "model.cell=tanh",
        *(f"model/attention={kind}" for kind in ("dot", "scaled_dot", "concat", "additive", "location", "none")),
        "model.attention.input_feeding=false", "model.attention.reach=local-p model.attention.window=10",
        "model.bidirectional=false", "model.layers=2", "model.tie_embeddings=false",
        "module.teacher_forcing=0.5", "module.r_drop=0", "module.r_drop=5",
    ),
}  # fmt: skip
"""The choices for each family. The first is the default."""

EXPECTED = {
    "model/positions=none": "shows what positions are for",
    "model/self_attention=parameter_free": "shows what queries, keys and values are for",
    "model/attention=none": "shows what attention is for",
    "model/attention=location": "scores that do not see the source (Luong et al. 2015)",
    "model.cell=tanh": "shows what gates are for",
}
"""Choices that exist to show a loss, and why."""


def write(rows: Mapping[str, Mapping[str, Any]], corpora: Sequence[str], machine: str) -> None:
    """Write docs/results/choices.json."""
    content: dict[str, Any] = {
        "what": "The default models with one other choice each: BLEU on the validation set, greedy search.",
        "command": "python scripts/choices.py --runs RUNS --name NAME …",
        "machine": machine,
        "date": date.today().isoformat(),
        "seeds": "1",
        "spread": "one run each",
        "columns": {"model": "model", "choice": "choice", **{name: name for name in corpora}},
        "rows": rows,
        "values": {},
    }
    RESULTS.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    """Train, print and write.

    Returns:
        The exit status: 1 if a choice is a trap.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs, named NAME-MODEL-NUMBER")
    parser.add_argument("--name", required=True, help="name of the corpus in the table")
    parser.add_argument("--models", nargs="+", choices=[*CHOICES], default=[*CHOICES])
    parser.add_argument("--machine", default=platform.processor() or platform.machine(), help="its description")
    parser.add_argument(
        "corpus", nargs="*", metavar="OPTION", help="options of the corpus (default: the built-in corpus)"
    )
    arguments = parser.parse_args()
    rows, traps = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else {}, []
    known = [name for row in rows.values() for name in row if name not in ("model", "choice")]
    corpora = list(dict.fromkeys([*known, arguments.name]))
    for family in arguments.models:
        default = 0.0
        for choice in CHOICES[family]:
            usual = [f"model={family}", *arguments.corpus, "test=false", "search=greedy"]
            options = [*usual, *choice.split()]
            if choice and compose(options).options == compose(usual).options:
                bleu = default
            else:
                folder = f"{arguments.name}-{family}-{choice or 'default'}".replace("/", ".").replace(" ", "-")
                bleu = train(arguments.runs.resolve() / folder, *options)["valid"]["bleu"]
            default = default if choice else bleu
            shown = f"`{choice}`" if choice else "default"
            row = rows.setdefault(f"{family} {choice}".strip(), {"model": family, "choice": shown})
            row[arguments.name] = round(bleu, 1)
            if bleu < default - TOLERANCE and choice not in EXPECTED:
                traps.append(f"{family} {choice}")
            print(
                f"{bleu:6.2f}  {family}  {choice or 'default'}{'  TRAP' * (traps[-1:] == [f'{family} {choice}'])}",
                flush=True,
            )
            write(rows, corpora, arguments.machine)
    return int(bool(traps))


if __name__ == "__main__":
    sys.exit(main())
