"""How hard is the built-in corpus? What translating word for word scores, and what given runs make of it.

    python scripts/hardness.py RUN [RUN …]

Runs of data=synthetic in its standard sizes, English to German. For each: test BLEU, and for every phenomenon of the
challenge set the share of contrasts in which the right German is likelier than the minimally wrong one (a tie is wrong;
chance is 50 %).
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from heed.compare.challenge import contrastive_accuracy
from heed.compare.models import load_translator
from heed.data.synthetic import Example, challenge, generate, split_punctuation
from heed.evaluation.scores import corpus_scores


def word_for_word(train: Sequence[Example], test: Sequence[Example]) -> float:
    """BLEU on test of each English word's most frequent German word in training, in English order."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        src, tgt = split_punctuation(example.src), split_punctuation(example.tgt)
        for i, j in example.alignment:
            table[src[i]][tgt[j]] += 1
    best = {word: translations.most_common(1)[0][0] for word, translations in table.items()}
    rough = (" ".join(best.get(word, word) for word in split_punctuation(example.src)) for example in test)
    hypotheses = [re.sub(r" ([.,])", r"\1", line) for line in rough]
    return corpus_scores(hypotheses, [example.tgt for example in test], tgt_lang="de").bleu


def main(runs: Sequence[Path]) -> None:
    corpus = generate(seed=1, train=24_000, valid=1, test=1_000, long=1)
    print(f"word for word: BLEU {word_for_word(corpus['train'], corpus['test']):.1f}")
    contrasts = challenge(seed=1, per_tag=400)
    for run in runs:
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        accuracy = contrastive_accuracy(load_translator(run), contrasts)
        shares = "  ".join(f"{tag} {found.share:.1%}" for tag, found in accuracy.items())
        test, long = results["test"]["bleu"], results["tests"]["long"]["bleu"]
        print(f"{results['name']}: BLEU {test:.1f}  long {long:.1f}  {shares}")


if __name__ == "__main__":
    main([Path(run) for run in sys.argv[1:]])
