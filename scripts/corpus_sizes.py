"""Train the default models on samples of a corpus, to show what a model owes to the size of its text.

    python scripts/corpus_sizes.py data=multi30k data.root=DIR --runs RUNS --name Multi30k --pairs 600 3000 10000 29000
    python scripts/corpus_sizes.py data=tatoeba data.root=DIR --runs RUNS --name Tatoeba --pairs 160000

Each model is trained once (seed 1), with the settings that `auto` gives it. A smaller sample is a subset of a larger
one. A run that RUNS already has is not trained again. The result is docs/results/corpus_sizes.json, with a row for each
size.
"""

import argparse
import json
import platform
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from trainings import ROOT, train

RESULTS = ROOT / "docs" / "results" / "corpus_sizes.json"
COLUMNS = {
    "pairs": "training pairs",
    "corpus": "corpus",
    "transformer": "transformer",
    "rnn": "RNN",
    "transformer_minutes": "minutes, transformer",
    "rnn_minutes": "minutes, RNN",
}


def write(rows: Mapping[str, Mapping[str, Any]], machine: str) -> None:
    """Write docs/results/corpus_sizes.json."""
    content: dict[str, Any] = {
        "what": "The default models by the size of their training text, English-German: BLEU on the test set (of "
        "Multi30k: test_2016_flickr), beam search, and minutes of training beside other programs.",
        "command": "python scripts/corpus_sizes.py data=NAME data.root=DIR --runs RUNS --name NAME --pairs N …",
        "machine": machine,
        "date": date.today().isoformat(),
        "seeds": "1",
        "spread": "one run each",
        "columns": COLUMNS,
        "rows": dict(sorted(rows.items(), key=lambda item: item[1]["pairs"])),
        "values": {},
    }
    RESULTS.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs, named NAME-PAIRS-MODEL")
    parser.add_argument("--name", required=True, help="name of the corpus in the table")
    parser.add_argument("--pairs", type=int, nargs="+", required=True, help="sizes of the samples")
    parser.add_argument("--models", nargs="+", choices=["transformer", "rnn"], default=["transformer", "rnn"])
    parser.add_argument("--machine", default=platform.processor() or platform.machine(), help="its description")
    parser.add_argument("corpus", nargs="+", metavar="OPTION", help="options of the corpus")
    arguments = parser.parse_args()
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else {}
    for pairs in arguments.pairs:
        for model in arguments.models:
            run = arguments.runs.resolve() / f"{arguments.name}-{pairs}-{model}"
            results = train(run, f"model={model}", f"data.max_train={pairs}", *arguments.corpus)
            bleu, minutes = results["tests"]["test"]["bleu"], results["train_seconds"] / 60
            row = rows.setdefault(f"{arguments.name}_{pairs}", dict.fromkeys(COLUMNS))
            row |= {"pairs": pairs, "corpus": arguments.name}
            row |= {model: round(bleu, 1), f"{model}_minutes": round(minutes)}
            print(f"{pairs:>8,} pairs  {model:<12} BLEU {bleu:5.1f}  {minutes:4.0f} minutes", flush=True)
            write(rows, arguments.machine)


if __name__ == "__main__":
    main()
