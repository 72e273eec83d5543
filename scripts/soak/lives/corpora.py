"""The small corpora of random life cycles: text of the built-in grammar with a little dirt, in several formats."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from grammar.corpus import Example, challenge, generate

DIRT = (
    ("", "Leer."),
    ("Same pair twice.", "Zweimal dasselbe."),
    ("Same pair twice.", "Zweimal dasselbe."),
    ("@@", "Ja."),
)
"""Pairs that cleaning drops, before the clean ones: lines and pairs do not have the same numbers."""

WORDS = 8
"""Longest source: models of a few steps say something about short sentences."""


def write_corpora(folder: Path) -> None:
    """Write train, more, valid and test as pairs of files, and more formats of the training text."""
    folder.mkdir(parents=True)
    splits = generate(seed=7, train=3400, valid=150, test=150, long=0)
    short = {split: [each for each in examples if len(each.src.split()) <= WORDS] for split, examples in splits.items()}
    train, more = short["train"][:300], short["train"][300:400]
    evaluation = {"valid": short["valid"][:12], "test": short["test"][:16]}
    leaked = [(example.src, example.tgt) for example in evaluation["test"][:2]]
    pairs = [*DIRT, *((each.src, each.tgt) for each in train), *leaked]
    write_pair(folder / "train", pairs)
    write_pair(folder / "numbered", [(f"{n}: {src}", f"{n}: {tgt}") for n, (src, tgt) in enumerate(pairs[4:154])])
    links = [" ".join(_links(example)) for example in train]
    (folder / "train.align").write_text(
        "\n".join([""] * len(DIRT) + links + [""] * len(leaked)) + "\n", encoding="utf-8"
    )
    records = [{"src": src, "tgt": tgt, "score": number % 10 / 10} for number, (src, tgt) in enumerate(pairs)]
    (folder / "scored.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    write_pair(folder / "more", [(each.src, each.tgt) for each in more])
    rows = "".join(f"{each.src}\t{each.tgt}\n" for each in more)
    (folder / "more.tsv").write_text(rows, encoding="utf-8")
    for split, examples in evaluation.items():
        write_pair(folder / split, [(each.src, each.tgt) for each in examples])
    lines = "".join(json.dumps(each.record()) + "\n" for each in challenge(seed=1, per_tag=12))
    (folder / "challenge.jsonl").write_text(lines, encoding="utf-8")


def write_pair(stem: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Write STEM.en and STEM.de."""
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        stem.with_suffix(f".{language}").write_text(text, encoding="utf-8")


def _links(example: Example) -> list[str]:
    """Return the links between words that spaces separate: the corpus counts punctuation marks as words."""

    def words(sentence: str) -> list[int]:
        return [sentence[: mark.start()].count(" ") for mark in re.finditer(r"\w+(?:'\w+)*|[^\w\s]", sentence)]

    src, tgt = words(example.src), words(example.tgt)
    return [f"{i}-{j}" for i, j in sorted({(src[i], tgt[j]) for i, j in example.alignment})]
