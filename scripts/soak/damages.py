"""Damaged text: a clean corpus with one or two of many damages, which ``heed check`` names, with the right lines.

A damage that has no name here must not matter: the training is the same, bit for bit.
"""

import argparse
import csv
import gzip
import random
import re
import shutil
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from grammar.corpus import generate

from soak.lives.corpora import write_pair
from soak.lives.forked import heed, preload

Lines = list[str]
PAIRS = 1100
SHARE = 0.08
"""Of the lines, that a damage of single lines hits."""
TWO_STEPS = (
    "model.d_model=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1", "trainer.max_steps=2",
    "trainer.precision=32-true", "test=false", "logger=none", "hydra.run.dir=runs/x", "callbacks.diagnosis=null",
)  # fmt: skip
SPANISH = (
    "El perro viejo duerme en la casa de la abuela.", "La niña no quiere comer la sopa porque está muy fría.",
    "Mañana vamos a la playa con los amigos de mi hermano.", "El profesor de la escuela tiene un libro en la mano.",
    "La mujer que vive en la calle de al lado es la hermana del médico.", "No hay nada en el mundo que sea más bonito.",
)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """A damage, and the names by which ``heed check`` may call it; none: it must not matter."""

    change: Callable[[random.Random, Lines, Lines], list[int]]
    """Changes sources and targets in place, and returns the changed lines, counted from 1; all: []."""
    names: tuple[str, ...] = ()
    recall: float = 1.0
    """Share of the changed lines that must be named: statistics are certain only of most."""
    encode: Callable[[str], bytes] = str.encode


def some(
    edit: Callable[[str], str], *, side: int = 1, only: str = "."
) -> Callable[[random.Random, Lines, Lines], list[int]]:
    """Return a damage of random lines that match a pattern."""

    def change(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
        lines = (src, tgt)[side]
        fit = [number for number, line in enumerate(lines) if re.search(only, line)]
        chosen = sorted(rng.sample(fit, min(len(fit), int(SHARE * len(lines)))))
        for number in chosen:
            lines[number] = edit(lines[number])
        return [number + 1 for number in chosen]

    return change


def every(edit: Callable[[int, str], str], *, sides: Sequence[int] = (1,)) -> Callable[..., list[int]]:
    """Return a damage of all lines, of one side or both."""

    def change(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
        for side in sides:
            (src, tgt)[side][:] = [edit(number, line) for number, line in enumerate((src, tgt)[side])]
        return []

    return change


unchanged = every(lambda _, line: line)


def inside(text: str) -> Callable[[str], str]:
    """Return an edit that puts a text between the second and the third word."""
    return lambda line: re.sub(r"^(\S+ \S+) ", lambda found: f"{found[1]}{text}", line, count=1)


def swap(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
    """Swap the sides of some pairs."""
    chosen = sorted(rng.sample(range(len(src)), int(SHARE * len(src))))
    for number in chosen:
        src[number], tgt[number] = tgt[number], src[number]
    return [number + 1 for number in chosen]


def copy(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
    """Leave some sources untranslated."""
    chosen = sorted(rng.sample(range(len(src)), int(SHARE * len(src))))
    for number in chosen:
        tgt[number] = src[number]
    return [number + 1 for number in chosen]


def repeat_lines(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
    """Append some pairs again."""
    chosen = sorted(rng.sample(range(len(src)), int(SHARE * len(src))))
    first = len(src) + 1
    src += [src[number] for number in chosen]
    tgt += [tgt[number] for number in chosen]
    return [*range(first, len(src) + 1)]


def shift(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
    """Lose one target, and repeat one 200 lines further down."""
    start = rng.randrange(50, len(tgt) - 260)
    tgt[start : start + 200] = [*tgt[start + 1 : start + 200], tgt[start]]
    return [*range(start + 1, start + 200)]


def shuffle(rng: random.Random, src: Lines, tgt: Lines) -> list[int]:
    """Shuffle the targets."""
    rng.shuffle(tgt)
    return []


def constant(word: str) -> Callable[[random.Random, Lines, Lines], list[int]]:
    """Return a damage: a word stands for missing translations."""
    return some(lambda _: word, only=r"\S+ \S+ \S+ \S+ \S+")


def misread(encoding: str) -> Callable[[str], str]:
    """Return an edit that reads UTF-8 in another encoding."""
    return lambda line: line.encode().decode(encoding, errors="replace")


UMLAUT = "[äöüß]"
EMPTY, DROPPED_SHORT = ("empty", "dropped: empty"), ("dropped: placeholder", "dropped: empty")
DAMAGES: dict[str, Damage] = {
    "no target": Damage(some(lambda _: ""), EMPTY),
    "no source": Damage(some(lambda _: "", side=0), EMPTY),
    "blank": Damage(some(lambda _: " \u200b\xa0"), EMPTY),
    "placeholder": Damage(some(lambda _: "@@"), ("dropped: placeholder",)),
    "sides swapped": Damage(swap, ("swapped",), 0.8),
    "untranslated": Damage(copy, ("untranslated", "dropped: duplicate"), 0.8),
    "duplicates": Damage(repeat_lines, ("dropped: duplicate",)),
    "mojibake": Damage(some(misread("cp1252"), only=UMLAUT), ("encoding",)),
    "mojibake of Mac": Damage(some(misread("mac_roman"), only=UMLAUT), ("encoding",)),
    "lost letters": Damage(some(lambda line: re.sub(UMLAUT, "\ufffd", line), only=UMLAUT), ("encoding",)),
    "tags": Damage(some(inside(" <b>x</b> ")), ("markup",)),
    "references": Damage(some(inside(" &amp; ")), ("markup",)),
    "BPE": Damage(some(lambda line: re.sub(r"(\w\w)(\w)", r"\1@@ \2", line)), ("segmented",)),
    "SentencePiece": Damage(some(lambda line: "▁" + line.replace(" ", " ▁")), ("segmented",)),
    "WordPiece": Damage(some(lambda line: re.sub(r"(\w\w)(\w)", r"\1 ##\2", line)), ("segmented",)),
    "tabs": Damage(some(inside("\t")), ("tabs",)),
    "zero width space": Damage(some(inside("\u200b ")), ("invisible",)),
    "soft hyphens": Damage(some(lambda line: re.sub(r"(\w\w)(\w)", "\\1\u00ad\\2", line)), ("invisible",)),
    "control characters": Damage(some(inside("\x0b")), ("invisible",)),
    "line separator": Damage(some(inside("\u2028")), ("invisible", "spaces")),
    "double spaces": Damage(some(inside("  ")), ("spaces",)),
    "no-break spaces": Damage(some(inside("\xa0"), only=r"^\w+ \w+ \w"), ("spaces",)),
    "decomposed": Damage(some(lambda line: unicodedata.normalize("NFD", line), only="[äöü]"), ("decomposed",)),
    "too long": Damage(
        some(lambda line: " ".join([line] * 80)), ("dropped: length", "dropped: too long", "dropped: ratio")
    ),
    "third language": Damage(some(lambda line: SPANISH[len(line) % len(SPANISH)]), ("third_language",), 0.7),
    "numbers": Damage(every(lambda number, line: f"{number + 1}. {line}", sides=(0, 1)), ("numbered",)),
    "nan": Damage(constant("nan"), ("constant", "dropped: ratio"), 0.9),
    "NULL": Damage(constant("NULL"), ("constant", "dropped: ratio"), 0.9),
    "shifted": Damage(shift, ("shifted", "unrelated"), 0.6),
    "shuffled": Damage(shuffle, ("unrelated",)),
    "lower case": Damage(every(lambda _, line: line.lower()), ("upper_case", "lower_cased")),
    "tokenized": Damage(every(lambda _, line: re.sub(r"([.,])", r" \1", line)), ("punctuation", "tokenized")),
    "byte order mark": Damage(unchanged, encode=lambda text: b"\xef\xbb\xbf" + text.encode()),
    "CRLF": Damage(unchanged, encode=lambda text: text.replace("\n", "\r\n").encode()),
    "no last newline": Damage(unchanged, encode=lambda text: text[:-1].encode()),
    "gzip": Damage(unchanged, encode=lambda text: gzip.compress(text.encode())),
}
"""By name."""


def try_damages(names: Sequence[str], seed: int, folder: Path) -> list[str]:
    """Damage the training text, check it, and return what is not named, or named at other lines."""
    rng = random.Random(f"{seed} {names}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(folder.parent / "clean", folder)
    src, tgt = ((folder / f"train.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("en", "de"))
    changed = {name: DAMAGES[name].change(rng, src, tgt) for name in names}
    encode = next((DAMAGES[name].encode for name in names if not DAMAGES[name].names), str.encode)
    for side, lines in (("en", src), ("de", tgt)):
        (folder / f"train.{side}").write_bytes(encode("".join(f"{line}\n" for line in lines)))
    options = [f"data.{split}=[[{split}.en,{split}.de]]" for split in ("train", "valid", "test")]
    done = heed(["check", "data=files", *options, "--lines", "lines.tsv"], folder)
    said = done.out + done.err
    if "Traceback" in said or done.status not in (0, 2):
        return [f"status {done.status}: {done.err[-500:]}"]
    if done.status == 2:
        return [] if any("number" in name for name in names) else [f"refused: {done.err[-300:]}"]
    with (folder / "lines.tsv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    problems = []
    for name in names:
        damage, hit = DAMAGES[name], set(changed[name])
        found = {int(line) for text, line, fault in rows if fault in damage.names and "train" in text}
        if damage.names and not hit and not found and not _is_said(damage, said):
            problems.append(f"{name}: not named: {said[-600:]}")
        # Of two damages of one line, one is named.
        known = {int(line) for text, line, _ in rows if "train" in text} if len(names) > 1 else found
        wrong = {"are not named": sorted(hit - known)}
        if hit and len(names) == 1:
            wrong["are named, too"] = sorted(found - hit)
        for what, those in wrong.items():
            if len(those) > (1 - damage.recall) * len(hit):
                first = f"{src[those[0] - 1]} ‖ {tgt[those[0] - 1]}"
                problems.append(f"{name}: of {len(hit)} lines, {len(those)} {what}, such as {those[:4]}: {first}")
    if not any(DAMAGES[name].names for name in names):
        runs = [_trained(one) / "model/model.safetensors" for one in (folder, folder.parent / "clean")]
        weights = [run.read_bytes() for run in runs]
        if weights[0] != weights[1]:
            problems.append("the training is another one")
    return problems


def _is_said(damage: Damage, text: str) -> bool:
    words = {
        "unrelated": "no translations",
        "upper_case": "no upper case",
        "punctuation": "spaces before full stops",
        "numbered": "number of their line",
    }
    return any(words.get(name, name) in text for name in damage.names)


def _trained(folder: Path) -> Path:
    """Train two steps, unless it is done, and return the run."""
    options = [f"data.{split}=[[{split}.en,{split}.de]]" for split in ("train", "valid", "test")]
    if not (folder / "runs/x/results.json").exists():
        heed(["train", "data=files", *options, *TWO_STEPS], folder)
    return folder / "runs/x"


def _draw(rng: random.Random, count: int) -> Iterator[tuple[str, ...]]:
    pairs = [*combinations(DAMAGES, 2)]
    yield from rng.sample(pairs, min(count, len(pairs)))


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m scripts.soak text``; return 1 if a damage was not named."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak text", description=__doc__)
    parser.add_argument(
        "--pairs", type=int, default=100, help="random pairs of damages, after each alone (default: %(default)s)"
    )
    parser.add_argument("--only", action="append", help="a damage, or two with + between them")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the lines and pairs (default: the time)")
    given = parser.parse_args(arguments)
    preload()
    work = Path(tempfile.mkdtemp(prefix="heed-damages-"))
    (work / "clean").mkdir()
    for split, examples in generate(seed=5, train=PAIRS, valid=200, test=200, long=0).items():
        write_pair(work / "clean" / split, [(each.src, each.tgt) for each in examples])
    cases = [tuple(text.split("+")) for text in given.only or ()]
    failed = total = 0
    for names in cases or [*((name,) for name in DAMAGES), *_draw(random.Random(given.seed), given.pairs)]:
        problems, total = try_damages(names, given.seed, work / "damaged"), total + 1
        failed += bool(problems)
        if problems:
            print(
                f"{' + '.join(names)} (--only '{'+'.join(names)}' --seed {given.seed})",
                *problems,
                sep="\n  ",
                flush=True,
            )
    print(f"{total} damaged corpora, {failed} with a problem")
    return int(failed > 0)
