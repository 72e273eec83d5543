"""Train the default models on the built-in corpus with several seeds, and check the claims of README about them.

    python scripts/headline.py --runs RUNS [--seeds 1 2 3 4 5] [--models transformer rnn]

It trains with the command of README and translates the ten sentences of ``headline.tsv``: a phenomenon, a source that
the grammar can generate, and the accepted translations in further columns. A run that RUNS already has is not trained
again. The result is docs/results/headline.json. The exit status is 1 if a run misses an aim.
"""

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from trainings import ROOT, train

from heed.comparison.challenge import ContrastivePair, built_in_challenge, contrastive_accuracy
from heed.inference.loading import load

RESULTS = ROOT / "docs" / "results" / "headline.json"
COLUMNS = {
    "model": "model",
    "seed": "seed",
    "bleu": "BLEU",
    "long": "BLEU, long",
    "pronoun": "pronoun",
    "far": "far reference",
    "sentences": "sentences right",
}
MIN_BLEU, MIN_PRONOUNS = 97.0, 99.0
"""The aims: test BLEU, and for the transformer the percentage of contrastive pronouns."""
CONTRASTS_PER_TAG = 400


@dataclass(frozen=True)
class Sentence:
    """A sentence with every translation that counts as right."""

    tag: str
    source: str
    translations: tuple[str, ...]


SENTENCES = [
    Sentence(tag, source, tuple(right))
    for tag, source, *right in (
        line.split("\t") for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    )
]


@cache
def _contrasts() -> list[ContrastivePair]:
    return [one for one in built_in_challenge(CONTRASTS_PER_TAG) if one.tag in ("pronoun", "far")]


@dataclass(frozen=True)
class Score:
    """The results of a run, and the aims that it misses."""

    row: dict[str, Any]
    """The row of the table."""
    missed: list[tuple[Sentence, str]]
    """Sentences with a wrong translation, and that translation."""
    misses: list[str]
    """The aims that the run misses."""


def score(run: Path) -> Score:
    """Translate the sentences and score the challenge set with a trained model."""
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    is_transformer = results["model"] == "transformer"
    translator = load(run, max_tokens=None)
    found = zip(SENTENCES, translator.translate([sentence.source for sentence in SENTENCES], beam=1), strict=True)
    missed = [(sentence, text) for sentence, text in found if text not in sentence.translations]
    percent = {tag: 100 * one.fraction for tag, one in contrastive_accuracy(translator, _contrasts()).items()}
    bleu, pronouns = results["tests"]["test"]["bleu"], percent["pronoun"]
    # An RNN may miss the reference to another sentence.
    misses = [f"{one.source} → {text}" for one, text in missed if is_transformer or one.tag != "far"]
    if bleu < MIN_BLEU:
        misses.append(f"test BLEU {bleu:.1f} is below {MIN_BLEU}")
    if is_transformer and pronouns < MIN_PRONOUNS:
        misses.append(f"{pronouns:.1f} % of the contrastive pronouns are below {MIN_PRONOUNS} %")
    row = {
        "model": "transformer" if is_transformer else "RNN",
        "seed": results["seed"],
        "bleu": round(bleu, 1),
        "long": round(results["tests"]["long"]["bleu"], 1),
        **{tag: round(percent[tag], 1) for tag in ("pronoun", "far")},
        "sentences": len(SENTENCES) - len(missed),
    }
    return Score(row, missed, misses)


def _long(scores: dict[str, Score]) -> dict[str, dict[str, float]]:
    """Return the BLEU on long sentences of each model with several seeds."""
    found: dict[str, list[float]] = {}
    for name, one in scores.items():
        found.setdefault(f"long_{name.split('_')[0]}", []).append(one.row["long"])
    return {
        name: {"mean": round(mean(all_), 1), "sd": round(stdev(all_), 1)} for name, all_ in found.items() if all_[1:]
    }


def write(scores: dict[str, Score], *, seeds: Sequence[int], machine: str) -> None:
    """Write docs/results/headline.json."""
    missed = "; ".join(f"{name}: {text}" for name, one in scores.items() for _, text in one.missed)
    content: dict[str, Any] = {
        "what": "The default models on the built-in corpus: test BLEU, BLEU on long sentences, contrastive accuracy in "
        f"percent ({CONTRASTS_PER_TAG} contrasts per phenomenon, chance is 50), and how many of the {len(SENTENCES)} "
        f"sentences of scripts/headline.tsv are translated correctly. Wrong: {missed or 'none'}.",
        "command": "python scripts/headline.py --runs RUNS",
        "machine": machine,
        "date": date.today().isoformat(),
        "seeds": ", ".join(map(str, seeds)),
        "spread": "one run each",
        "columns": COLUMNS,
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in content.items()]
    rows = [f"    {json.dumps(name)}: {json.dumps(one.row, ensure_ascii=False)}" for name, one in scores.items()]
    measured_by_hand = json.loads(RESULTS.read_text(encoding="utf-8"))["values"] if RESULTS.exists() else {}
    values = [
        f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in (measured_by_hand | _long(scores)).items()
    ]
    blocks = ['  "rows": {', ",\n".join(rows), "  },", '  "values": {', ",\n".join(values), "  }"]
    text = "\n".join(["{", *lines, *blocks, "}\n"])
    RESULTS.write_text(text, encoding="utf-8")


def main() -> int:
    """Train, score, print and write.

    Returns:
        The exit status: 1 if a run misses an aim.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs, named MODEL-SEED")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--models", nargs="+", choices=["transformer", "rnn"], default=["transformer", "rnn"])
    parser.add_argument("--machine", default=platform.processor() or platform.machine(), help="its description")
    arguments = parser.parse_args()
    scores = {}
    for model in arguments.models:
        for seed in arguments.seeds:
            run = arguments.runs.resolve() / f"{model}-{seed}"
            train(run, f"model={model}", f"seed={seed}")
            scores[f"{model}_{seed}"] = one = score(run)
            print(*(f"{key} {value}" for key, value in one.row.items()), *one.misses, sep="  ", flush=True)
    write(scores, seeds=arguments.seeds, machine=arguments.machine)
    return int(any(one.misses for one in scores.values()))


if __name__ == "__main__":
    sys.exit(main())
