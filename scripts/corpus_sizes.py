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
from datetime import date
from pathlib import Path
from typing import Any

from trainings import ROOT, train

RESULTS = ROOT / "docs" / "results" / "corpus_sizes.json"
NEW = {
    "what": "The default models by the size of their training text, English-German: BLEU on the test set (of Multi30k: "
    "test_2016_flickr), beam search.",
    "command": "python scripts/corpus_sizes.py data=NAME data.root=DIR --runs RUNS --name NAME --pairs N …",
    "machine": platform.processor() or platform.machine(),
    "seeds": "1",
    "spread": "one run each",
    "columns": {"pairs": "training pairs", "corpus": "corpus", "transformer": "transformer", "rnn": "RNN"},
    "rows": {},
    "values": {},
}
"""What a new table says. An older one keeps its other columns."""


def main() -> None:
    """Train, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs, named NAME-PAIRS-MODEL")
    parser.add_argument("--name", required=True, help="name of the corpus in the table")
    parser.add_argument("--pairs", type=int, nargs="+", required=True, help="sizes of the samples")
    parser.add_argument("--models", nargs="+", choices=["transformer", "rnn"], default=["transformer", "rnn"])
    parser.add_argument("corpus", nargs="+", metavar="OPTION", help="options of the corpus")
    arguments = parser.parse_args()
    content: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else NEW
    for pairs in arguments.pairs:
        for model in arguments.models:
            run = arguments.runs.resolve() / f"{arguments.name}-{pairs}-{model}"
            results = train(run, f"model={model}", f"data.max_train={pairs}", *arguments.corpus)
            bleu = results["tests"]["test"]["bleu"]
            row = content["rows"].setdefault(f"{arguments.name}_{pairs}", dict.fromkeys(content["columns"]))
            row |= {"pairs": pairs, "corpus": arguments.name, model: round(bleu, 1)}
            content["rows"] = dict(sorted(content["rows"].items(), key=lambda item: item[1]["pairs"]))
            content["date"] = date.today().isoformat()
            RESULTS.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"{pairs:>8,} pairs  {model:<12} BLEU {bleu:5.1f}", flush=True)


if __name__ == "__main__":
    main()
