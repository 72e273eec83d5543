"""Measure how hard the built-in corpus is: the BLEU of word-for-word translation, and the results of runs.

    python scripts/experiments/hardness.py [RUN …]

RUN is a run of data=synthetic in its standard sizes, English to German. For each run it prints the test BLEU, and for
each phenomenon of the challenge set the share of contrasts in which the correct translation has a higher probability
than the minimally wrong one (ties count as wrong; chance is 50 %).
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.measures import SEED, contrasts
from heed.comparison.challenge import contrastive_accuracy
from heed.evaluation.scores import corpus_scores
from heed.inference.loading import load
from heed.synthetic import Example, generate, split_punctuation


def word_for_word(train: Sequence[Example], test: Sequence[Example]) -> float:
    """Return the test BLEU of replacing each English word by the German word most often aligned to it in training."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        src, tgt = split_punctuation(example.src), split_punctuation(example.tgt)
        for i, j in example.alignment:
            table[src[i]][tgt[j]] += 1
    best = {word: translations.most_common(1)[0][0] for word, translations in table.items()}
    translated = (" ".join(best.get(word, word) for word in split_punctuation(example.src)) for example in test)
    hypotheses = [re.sub(r" ([.,])", r"\1", line) for line in translated]
    return corpus_scores(hypotheses, [example.tgt for example in test], tgt_lang="de").bleu


def main(argv: list[str]) -> None:
    """Print the word-for-word BLEU, and one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folder")
    runs = parser.parse_args(argv).runs
    corpus = generate(seed=SEED, train=24_000, valid=1, test=1_000, long=1)
    print(f"word for word: BLEU {word_for_word(corpus['train'], corpus['test']):.1f}")
    challenge = contrasts()
    for run in runs:
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        accuracy = contrastive_accuracy(load(run, max_tokens=None), challenge)
        shares = "  ".join(f"{tag} {found.fraction:.1%}" for tag, found in accuracy.items())
        test, long = results["test"]["bleu"], results["tests"]["long"]["bleu"]
        print(f"{results['name']}: BLEU {test:.1f}  long {long:.1f}  {shares}")


if __name__ == "__main__":
    main(sys.argv[1:])
