"""Sides of a comparison without run folders."""

from pathlib import Path
from typing import Any

from heed.comparison import runs
from heed.evaluation.scores import corpus_scores
from heed.languages import Direction

SCORES = corpus_scores(["a"], ["a"], tgt_lang="de")
SIGNATURES = {"BLEU": SCORES.bleu_signature, "chrF": SCORES.chrf_signature}
RECORDED = {"bleu_signature": SCORES.bleu_signature, "chrf_signature": SCORES.chrf_signature}


def make_run(translations: list[str], config: dict[str, Any] | None = None, **results: Any) -> runs.Run:
    """A run with equal results but for those that are given."""
    facts = {
        "model": "rnn", "params": 1000, "data": "files", "data_digest": "a", "train_digest": "a",
        "tokenizer_digest": "b", "steps": 10, "tokens": 500, "search": {"beam": 5, "length_penalty": 1.0},
        "weights": "best", "seed": 1,
        "valid": RECORDED, "tests": {"test": RECORDED}, **results,
    }  # fmt: skip
    return runs.Run(Path("runs/x"), facts, translations, config or {})


def make_test_set(references: list[str], *, split: str = "test", tags: list[str] | None = None) -> runs.TestSet:
    return runs.TestSet(split, [line.upper() for line in references], references, tags, None, Direction("en", "de"))
