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
from pathlib import Path

from heed.data.synthetic import challenge, generate, words
from heed.decoding import GreedySearch
from heed.evaluation.scores import corpus_scores
from heed.model_folder import load
from heed.translator import Translator


def word_for_word() -> float:
    """BLEU on test of each English word's most frequent German word, in English order."""
    corpus = generate(seed=1, train=24_000, valid=1, test=1_000, long=1)
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for example in corpus["train"]:
        src, tgt = words(example.src), words(example.tgt)
        for i, j in example.alignment:
            table[src[i]][tgt[j]] += 1
    best = {word: translations.most_common(1)[0][0] for word, translations in table.items()}
    rough = (" ".join(best.get(word, word) for word in words(example.src)) for example in corpus["test"])
    hypotheses = [re.sub(r" ([.,])", r"\1", line) for line in rough]
    return corpus_scores(hypotheses, [example.tgt for example in corpus["test"]], tgt_lang="de").bleu


def contrastive_accuracy(run: Path) -> dict[str, float]:
    """Per phenomenon, the share of 400 contrasts that the model of a run gets right."""
    folder = load(run)
    search = GreedySearch(max_length_factor=2.0, max_length_extra=10)
    translator = Translator(folder.model, folder.tokenizer, search, batch_tokens=4096)
    contrasts = challenge(seed=1, per_tag=400)
    sources = [contrast.src for contrast in contrasts]
    good = translator.score(sources, [contrast.good for contrast in contrasts])
    bad = translator.score(sources, [contrast.bad for contrast in contrasts])
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for contrast, better, worse in zip(contrasts, good, bad, strict=True):
        total[contrast.tag] += 1
        right[contrast.tag] += better > worse
    return {tag: right[tag] / total[tag] for tag in total}


def main(runs: list[Path]) -> None:
    print(f"word for word: BLEU {word_for_word():.1f}")
    for run in runs:
        results = json.loads((run / "results.json").read_text(encoding="utf-8"))
        accuracy = "  ".join(f"{tag} {share:.1%}" for tag, share in contrastive_accuracy(run).items())
        test, long = results["test"]["bleu"], results["tests"]["long"]["bleu"]
        print(f"{results['name']}: BLEU {test:.1f}  long {long:.1f}  {accuracy}")


if __name__ == "__main__":
    main([Path(run) for run in sys.argv[1:]])
