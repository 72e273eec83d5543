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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.measures import contrasts
from heed.comparison.challenge import contrastive_accuracy
from heed.data.text.source import Sentences
from heed.data.text.synthetic_corpus import read_split
from heed.evaluation.alignment import annotated_gold
from heed.evaluation.scores import corpus_scores
from heed.evaluation.words import split_punctuation
from heed.inference.loading import load


def word_for_word(train: Sentences, test: Sentences) -> float:
    """Return the test BLEU of replacing each English word by the German word most often aligned to it in training."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for src, tgt, meta in zip(train.src, train.tgt, train.meta or (), strict=True):
        src_words, tgt_words = split_punctuation(src), split_punctuation(tgt)
        for i, j in sorted(annotated_gold(meta).sure):
            table[src_words[i]][tgt_words[j]] += 1
    best = {word: translations.most_common(1)[0][0] for word, translations in table.items()}
    translated = (" ".join(best.get(word, word) for word in split_punctuation(src)) for src in test.src)
    hypotheses = [re.sub(r" ([.,])", r"\1", line) for line in translated]
    return corpus_scores(hypotheses, test.tgt, tgt_lang="de").bleu


def main(argv: list[str]) -> None:
    """Print the word-for-word BLEU, and one line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folder")
    runs = parser.parse_args(argv).runs
    print(f"word for word: BLEU {word_for_word(read_split('train'), read_split('test')):.1f}")
    challenge = contrasts()
    for run in runs:
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        accuracy = contrastive_accuracy(load(run, max_tokens=None), challenge)
        shares = "  ".join(f"{tag} {found.fraction:.1%}" for tag, found in accuracy.items())
        test, long = results["test"]["bleu"], results["tests"]["long"]["bleu"]
        print(f"{results['name']}: BLEU {test:.1f}  long {long:.1f}  {shares}")


if __name__ == "__main__":
    main(sys.argv[1:])
