"""The built-in corpus: English-German sentence pairs of our own, with gold alignments, antecedents and roles.

`lexicon` holds the words, `grammar` says a tree in both languages at once, `rules` hold one phenomenon each. Everything
follows from a seed. A sentence's place among the splits follows from its text alone, so that no split of any size, and
no challenge set, shares a sentence with training.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heed.data.synthetic.grammar import Key, Pair, text
from heed.data.synthetic.rules import RULES, Dice, Telling, chain
from heed.errors import HeedError

__all__ = ["Contrast", "Example", "challenge", "generate", "words"]

TRAIN_LONGEST = 22
LONG = range(30, 46)
"""Words of a source, full stop included."""

SHARES = (("train", 0.70), ("valid", 0.05), ("test", 0.05), ("challenge", 0.20))
PATIENCE = 100_000


@dataclass(frozen=True)
class Example:
    """One sentence pair and everything known about it. Positions count `words`, from 0."""

    src: str
    tgt: str
    tag: str
    alignment: tuple[tuple[int, int], ...]
    antecedent: Mapping[str, int] | None
    """Source positions: "pronoun", and its "right" and "wrong" antecedent."""
    roles: Mapping[str, int]
    """Source positions of "verb", "agent", "patient", "recipient", as far as there are."""

    def meta(self) -> dict[str, Any]:
        """All but the text, as plain data."""
        return {
            "tag": self.tag,
            "alignment": [list(link) for link in self.alignment],
            "antecedent": None if self.antecedent is None else dict(self.antecedent),
            "roles": dict(self.roles),
        }


@dataclass(frozen=True)
class Contrast:
    """A source with its right and a minimally wrong translation, which reads it the other way."""

    src: str
    good: str
    bad: str
    tag: str
    antecedent: Mapping[str, int] | None

    def meta(self) -> dict[str, Any]:
        """All but the text, as plain data."""
        return {"tag": self.tag, "antecedent": None if self.antecedent is None else dict(self.antecedent)}


def words(sentence: str) -> list[str]:
    """The words that positions refer to; a punctuation mark is a word of its own."""
    return re.findall(r"\w+(?:'\w+)*|[^\w\s]", sentence)


def generate(*, seed: int, train: int, valid: int, test: int, long: int) -> dict[str, list[Example]]:
    """The splits, all sources distinct; "long" is longer than anything in the others.

    Raises:
        HeedError: if the grammar has not so many different sentences.
    """
    dice = Dice(seed)
    splits: dict[str, list[Example]] = {"train": [], "valid": [], "test": [], "long": []}
    sizes = {"train": train, "valid": valid, "test": test, "long": long}
    seen: set[str] = set()
    idle = 0
    while any(len(splits[name]) < sizes[name] for name in ("train", "valid", "test")):
        tag = _tag(dice)
        rule, _ = RULES[tag]
        context = dice.choose((0, 1))
        telling = rule(dice)(context, context)
        src = text(telling.pair.en)
        split = _split(src)
        idle += 1
        if (
            split != "challenge"
            and src not in seen
            and len(splits[split]) < sizes[split]
            and len(telling.pair.en) <= TRAIN_LONGEST
        ):
            seen.add(src)
            splits[split].append(_example(telling, tag))
            idle = 0
        if idle > PATIENCE:
            raise HeedError(f"data.train={train} is more than the grammar can say: data=synthetic holds fewer sentences.")
    while len(splits["long"]) < long:
        telling = chain(dice, at_least=LONG.start)(0, 0)
        src = text(telling.pair.en)
        if src not in seen and len(telling.pair.en) in LONG:
            seen.add(src)
            splits["long"].append(_example(telling, "chain"))
    return splits


def challenge(*, seed: int, per_tag: int) -> list[Contrast]:
    """``per_tag`` contrasts of every phenomenon that has readings to confuse, none of whose sources are in any split.

    They come in twins, one for each context of a scene, that have each other's reading as the wrong one: a constant
    preference is right in exactly half of them.
    """
    contrasts = []
    for tag, (rule, _) in RULES.items():
        dice = Dice(seed)
        seen: set[str] = set()
        twins: list[Contrast] = []
        idle = 0
        while len(twins) < per_tag:
            scene = rule(dice)
            pair = [_contrast(scene(context, context), scene(context, 1 - context), tag) for context in (0, 1)]
            idle += 1
            if any(one.good == one.bad or one.src in seen or _split(one.src) != "challenge" for one in pair):
                if idle > 3000 and not twins:
                    break
                continue
            seen.update(one.src for one in pair)
            twins += pair
        contrasts += twins
    return contrasts


def _tag(dice: Dice) -> str:
    point = dice.random()
    for tag, (_, share) in RULES.items():
        point -= share
        if point < 0:
            return tag
    return tag


def _split(src: str) -> str:
    """Where a source belongs, whatever the seed."""
    point = int.from_bytes(hashlib.sha256(src.encode()).digest()[:8], "big") / 2**64
    for name, share in SHARES:
        point -= share
        if point < 0:
            return name
    return SHARES[-1][0]


def _positions(pair: Pair, keys: Mapping[str, Key]) -> dict[str, int]:
    return {name: pair.position(key) for name, key in keys.items()}


def _example(telling: Telling, tag: str) -> Example:
    pair = telling.pair
    return Example(
        src=text(pair.en),
        tgt=text(pair.de),
        tag=tag,
        alignment=pair.alignment(),
        antecedent=_positions(pair, telling.antecedent) or None,
        roles=_positions(pair, telling.roles),
    )


def _contrast(good: Telling, bad: Telling, tag: str) -> Contrast:
    assert text(good.pair.en) == text(bad.pair.en)
    return Contrast(
        src=text(good.pair.en),
        good=text(good.pair.de),
        bad=text(bad.pair.de),
        tag=tag,
        antecedent=_positions(good.pair, good.antecedent) or None,
    )
