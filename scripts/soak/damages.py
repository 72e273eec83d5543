"""Damaged text: ``heed check`` names one or two damages of a clean corpus, with their lines, or they do not matter."""

import argparse
import gzip
import random
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from pathlib import Path

from grammar.corpus import generate

from soak.lives.corpora import write_pair
from soak.lives.forked import heed, preload

Pairs = list[tuple[str, str]]
HIT = 88  # lines, of 1,100, that a damage of single lines hits
TEXT = ("data=files", *(f"data.{split}=[[{split}.en,{split}.de]]" for split in ("train", "valid", "test")))
TWO_STEPS = (
    "model.d_model=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1", "trainer.max_steps=2",
    "trainer.precision=32-true", "test=false", "logger=none", "hydra.run.dir=runs/x", "callbacks.diagnosis=null",
)  # fmt: skip
SPANISH = (
    "El perro viejo duerme en la casa de la abuela.", "La niña no quiere comer la sopa porque está muy fría.",
    "Mañana vamos a la playa con los amigos de mi hermano.", "El profesor de la escuela tiene un libro en la mano.",
)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """A damage, and how ``heed check`` names it; without names, it must not change a bit of a training."""

    change: Callable[[random.Random, Pairs], Pairs] = lambda _, pairs: pairs
    faults: tuple[str, ...] = ()  # what ``--lines`` may call the changed lines
    message: str = ""  # part of what is said of the text as a whole, in which no single lines count
    recall: float = 1.0  # fraction of the changed lines that must be named: statistics are certain only of most
    encode: Callable[[bytes], bytes] = bytes


def some(edit: Callable[[str, str], tuple[str, str]], *faults: str, only: str = "", recall: float = 1.0) -> Damage:
    """Return a damage of random pairs whose targets match a pattern."""

    def change(rng: random.Random, pairs: Pairs) -> Pairs:
        fit = [row for row, (_, tgt) in enumerate(pairs) if re.search(only, tgt)]
        rows = {*rng.sample(fit, min(len(fit), HIT))}
        return [edit(*pair) if row in rows else pair for row, pair in enumerate(pairs)]

    return Damage(change, faults, recall=recall)


def targets(edit: Callable[[str], str], *faults: str, only: str = "", recall: float = 1.0) -> Damage:
    """Return a damage of random targets that match a pattern."""
    return some(lambda src, tgt: (src, edit(tgt)), *faults, only=only, recall=recall)


def inserted(text: str, *faults: str) -> Damage:
    """Return a damage: a text between the second and the third word of random targets."""
    return targets(lambda line: re.sub(r"^(\S+ \w+) ", rf"\1{text}", line), *faults, only=r"^\S+ \w+ \w")


def every(edit: Callable[[int, str, str], tuple[str, str]], message: str, *faults: str) -> Damage:
    """Return a damage of all pairs, which depends on their numbers."""
    return Damage(lambda _, pairs: [edit(line, *pair) for line, pair in enumerate(pairs, 1)], faults, message)


def reorder(pairs: Pairs, others: Pairs) -> Pairs:
    """Return the sources of pairs with the targets of others."""
    return [(src, tgt) for (src, _), (_, tgt) in zip(pairs, others, strict=True)]


def shift(rng: random.Random, pairs: Pairs) -> Pairs:
    """Move a target 199 lines down."""
    row = rng.randrange(50, len(pairs) - 260)
    return reorder(pairs, [*pairs[:row], *pairs[row + 1 : row + 200], pairs[row], *pairs[row + 200 :]])


UMLAUT, EMPTY, CONSTANT = "[äöüß]", ("empty", "dropped: empty"), ("constant", "dropped: length ratio")
DAMAGES: dict[str, Damage] = {
    "shuffled": Damage(lambda rng, pairs: reorder(pairs, rng.sample(pairs, len(pairs))), message="no translations"),
    "shifted": Damage(shift, ("shifted", "unrelated"), recall=0.6),
    "numbers": every(lambda n, src, tgt: (f"{n}. {src}", f"{n}. {tgt}"), "number of their line", "numbered"),
    "no target": targets(lambda _: "", *EMPTY),
    "no source": some(lambda _, tgt: ("", tgt), *EMPTY),
    "blank": targets(lambda _: " \u200b\xa0", *EMPTY),
    "placeholder": targets(lambda _: "@@", "dropped: placeholder"),
    "sides swapped": some(lambda src, tgt: (tgt, src), "swapped", recall=0.8),
    "untranslated": some(lambda src, _: (src, src), "untranslated", "dropped: duplicate", recall=0.8),
    "mojibake": targets(lambda line: line.encode().decode("cp1252", "replace"), "encoding", only=UMLAUT),
    "mojibake of Mac": targets(lambda line: line.encode().decode("mac_roman"), "encoding", only=UMLAUT),
    "lost letters": targets(lambda line: re.sub(UMLAUT, "\ufffd", line), "encoding", only=UMLAUT),
    "tags": inserted(" <b>x</b> ", "markup"),
    "references": inserted(" &amp; ", "markup"),
    "BPE": targets(lambda line: re.sub(r"(\w\w)(\w)", r"\1@@ \2", line), "segmented"),
    "SentencePiece": targets(lambda line: "▁" + line.replace(" ", " ▁"), "segmented"),
    "WordPiece": targets(lambda line: re.sub(r"(\w\w)(\w)", r"\1 ##\2", line), "segmented"),
    "tabs": inserted("\t", "tabs"),
    "zero width space": inserted("\u200b ", "invisible"),
    "soft hyphens": targets(lambda line: re.sub(r"(\w\w)(\w)", "\\1\u00ad\\2", line), "invisible"),
    "control characters": inserted("\x0b", "invisible"),
    "line separator": inserted("\u2028", "invisible", "spaces"),
    "double spaces": inserted("  ", "spaces"),
    "no-break spaces": inserted("\xa0", "spaces"),
    "decomposed": targets(lambda line: unicodedata.normalize("NFD", line), "decomposed", only="[äöü]"),
    "too long": targets(lambda line: " ".join([line] * 80), "dropped: too long", "dropped: length ratio"),
    "third language": targets(lambda line: SPANISH[len(line) % len(SPANISH)], "third_language", recall=0.7),
    "nan": targets(lambda _: "nan", *CONSTANT, only=r"(\S+ ){4}", recall=0.9),
    "NULL": targets(lambda _: "NULL", *CONSTANT, only=r"(\S+ ){4}", recall=0.9),
    "lower case": every(lambda _, src, tgt: (src, tgt.lower()), "no upper case"),
    "tokenized": every(lambda _, src, tgt: (src, tgt.replace(".", " .")), "spaces before full stops"),
    "duplicates": Damage(lambda rng, pairs: [*pairs, *rng.sample(pairs, HIT)], ("dropped: duplicate",)),
    "byte order mark": Damage(encode=lambda text: b"\xef\xbb\xbf" + text),
    "CRLF": Damage(encode=lambda text: text.replace(b"\n", b"\r\n")),
    "no last newline": Damage(encode=lambda text: text.rstrip(b"\r\n")),
    "gzip": Damage(encode=gzip.compress),
}
"""By name, in the order in which two of them happen: copies of lines have their damages."""


def try_damages(names: Sequence[str], seed: int, clean: Path) -> Iterator[str]:
    """Damage the training text, check it, and yield what is not named, or named at other lines."""
    rng, folder = random.Random(f"{seed} {names}"), clean.with_name("damaged")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(clean, folder, ignore=shutil.ignore_patterns("runs", ".*"))
    files, damages, hits = (folder / "train.en", folder / "train.de"), [DAMAGES[name] for name in names], []
    pairs = [*zip(*(file.read_text(encoding="utf-8").split("\n")[:-1] for file in files), strict=True)]
    for damage in damages:
        before, pairs = pairs, damage.change(rng, pairs)
        hits.append({n for n, pair in enumerate(pairs, 1) if not damage.message and pair not in before[n - 1 : n]})
    for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_bytes(reduce(lambda text, damage: damage.encode(text), damages, "\n".join([*lines, ""]).encode()))
    done = heed(["check", *TEXT, "--lines", "lines.tsv"], folder)
    if done.status or "Traceback" in done.err:
        yield f"status {done.status}: {done.err[-600:]}"
        return
    table = [row.split("\t") for row in (folder / "lines.tsv").read_text(encoding="utf-8").split("\n")[1:-1]]
    faults = {fault for damage in damages for fault in damage.faults}
    whole = {fault for damage in damages if damage.message for fault in damage.faults}
    found = {(int(line) if text.startswith("train") else 0, fault) for text, line, fault in table if fault not in whole}
    named, right, tolerated = {line for line, fault in found if fault in faults}, set[int](), 0.0
    for name, damage, hit in reversed([*zip(names, damages, hits, strict=True)]):
        missed, part = sorted(hit - right - named), (1 - damage.recall) * len(hit)  # the last damage hides others
        if len(missed) > part:
            yield f"{name}: {len(missed)} of {len(hit)} lines are not named: {missed[:4]}, {pairs[missed[0] - 1]}"
        if damage.message not in done.out:
            yield f"{name}: not named: {done.out[-600:]}"
        right, tolerated = right | hit, tolerated + part
    if len(wrong := [each for each in sorted(found) if each[0] not in right]) > tolerated:
        yield f"{len(wrong)} other lines are named: {wrong[:4]}"
    if all(damage.encode is not bytes for damage in damages) and _weights(folder) != _weights(clean):
        yield "the training is another one"


def _weights(folder: Path) -> bytes:
    """Return the weights after two steps, which are made once."""
    file = folder / "runs/x/model/model.safetensors"
    if not file.exists():
        heed(["train", *TEXT, *TWO_STEPS], folder)
    return file.read_bytes()


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m scripts.soak text``; return 1 if a damage was not named."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak text", description=__doc__)
    parser.add_argument("--pairs", type=int, default=100, help="random pairs, after each alone (default: %(default)s)")
    parser.add_argument("--only", action="append", help="a damage, or two with + between them")
    parser.add_argument("--seed", type=int, default=random.randrange(1000), help="of lines and pairs (default: random)")
    given = parser.parse_args(arguments)
    drawn = random.Random(given.seed).sample([*combinations(DAMAGES, 2)][1:], given.pairs)  # no shift of shuffled lines
    cases = [tuple(text.split("+")) for text in given.only or ()] or [*((name,) for name in DAMAGES), *drawn]
    preload()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="heed-damages-") as work:
        (clean := Path(work, "clean")).mkdir()
        for split, examples in generate(seed=5, train=1100, valid=200, test=200, long=0).items():
            write_pair(clean / split, [(each.src, each.tgt) for each in examples])
        for names in cases:
            if problems := [*try_damages(names, given.seed, clean)]:
                failed += 1
                print(f"--only '{'+'.join(names)}' --seed {given.seed}", *problems, sep="\n  ", flush=True)
    print(f"{len(cases)} damaged corpora, {failed} with a problem; seed {given.seed}")
    return int(failed > 0)
