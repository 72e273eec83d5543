"""The built-in corpus: English-German sentence pairs of our own, with gold alignments, antecedents and roles.

`lexicon` holds the words, `grammar` says a tree in both languages at once, `rules` hold one phenomenon each. Everything
follows from a seed. A sentence's place among the splits follows from its text alone, so that no split of any size, and
no challenge set, shares a sentence with training.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from heed.data.synthetic.grammar import Key, Pair, text
from heed.data.synthetic.rules import CONTRASTED, RULES, SHARES, Dice, Scene, Telling, chain
from heed.errors import HeedError

__all__ = ["Contrast", "Example", "challenge", "generate", "words"]

SEQUEL = 0.7
"""How often something else is told next. What a fixed vector would have to hold is then the sum of two sentences."""
LONGEST = 28
"""Words of a source outside "long", full stops included."""
LONG = range(35, 51)
"""Words of a source in "long"."""
PATIENCE = 100_000
"""Draws without a new sentence after which there are none."""


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
            "antecedent": self.antecedent and dict(self.antecedent),
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
    roles: Mapping[str, int]
    """Both as in `Example`."""

    def meta(self) -> dict[str, Any]:
        """All but the text, as plain data."""
        return {"tag": self.tag, "antecedent": self.antecedent and dict(self.antecedent), "roles": dict(self.roles)}


def words(sentence: str) -> list[str]:
    """The words that positions refer to; a punctuation mark is a word of its own."""
    return re.findall(r"\w+(?:'\w+)*|[^\w\s]", sentence)


def generate(*, seed: int, train: int, valid: int, test: int, long: int) -> dict[str, list[Example]]:
    """The splits "train", "valid", "test" and "long", with all sources distinct.

    Raises:
        HeedError: if the grammar has not so many different sentences.
    """
    dice = Dice(seed)
    sizes = {"train": train, "valid": valid, "test": test}
    splits: dict[str, list[Example]] = {name: [] for name in (*sizes, "long")}
    openings: dict[str, tuple[str, Telling]] = {}  # per split, what waits for a sequel
    seen: set[str] = set()
    idle = 0
    while any(len(splits[name]) < size for name, size in sizes.items()):
        idle += 1
        if idle > PATIENCE:
            raise HeedError(f"data.train={train}, valid={valid}, test={test} is more than data=synthetic has to say.")
        tag = dice.weigh(SHARES)
        context = dice.choose((0, 1))
        telling = RULES[tag](dice)(context, context)
        # The parts of a source belong to one split, so that no split shares even a part with another.
        split = _split(text(telling.pair.en))
        if len(splits.get(split, ())) >= sizes.get(split, 0):
            continue
        if split in openings:
            tag, opening = openings.pop(split)
            telling = replace(opening, pair=opening.pair + telling.pair)
        elif dice.chance(SEQUEL):
            openings[split] = (tag, telling)
            continue
        src = text(telling.pair.en)
        if src in seen or len(telling.pair.en) > LONGEST:
            continue
        seen.add(src)
        splits[split].append(_example(telling, tag))
        idle = 0
    while len(splits["long"]) < long:
        telling = chain(dice, at_least=LONG.start)(0, 0)
        src = text(telling.pair.en)
        if src not in seen and len(telling.pair.en) in LONG:
            seen.add(src)
            splits["long"].append(_example(telling, "chain"))
    return splits


def challenge(*, seed: int, per_tag: int) -> list[Contrast]:
    """About ``per_tag`` contrasts of every phenomenon with readings to confuse; none of their sources is in any split.

    They come in twins, one for each context of a scene, and what is right for one reading is wrong for the other: a
    constant preference is right in exactly half of them.

    Raises:
        HeedError: if the grammar has not so many different contrasts.
    """
    return [contrast for tag in CONTRASTED for contrast in _twins(Dice(seed), tag, per_tag)]


def _twins(dice: Dice, tag: str, count: int) -> list[Contrast]:
    found: list[Contrast] = []
    seen: set[str] = set()
    idle = 0
    while len(found) < count:
        scene = RULES[tag](dice)
        idle += 1
        if idle > PATIENCE:
            raise HeedError(f"per_tag={count} is more than the challenge set has to say about {tag}.")
        twins = [twin for context in (0, 1) if (twin := _contrast(scene, context, tag))]
        if len(twins) == 2 and not any(twin.src in seen for twin in twins):
            seen.update(twin.src for twin in twins)
            found += twins
            idle = 0
    return found


def _split(src: str) -> str:
    """Where a source belongs, whatever the seed and the sizes."""
    digest = hashlib.sha256(src.encode()).digest()
    percent = int.from_bytes(digest[:8], "big") % 100
    return "train" if percent < 70 else "valid" if percent < 75 else "test" if percent < 80 else "challenge"


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


def _contrast(scene: Scene, context: int, tag: str) -> Contrast | None:
    """None where the readings do not differ in German, or the source belongs to another split."""
    good = scene(context, context)
    src = text(good.pair.en)
    if _split(src) != "challenge":
        return None
    bad = scene(context, 1 - context)
    assert text(bad.pair.en) == src
    if text(bad.pair.de) == text(good.pair.de):
        return None
    return Contrast(
        src=src,
        good=text(good.pair.de),
        bad=text(bad.pair.de),
        tag=tag,
        antecedent=_positions(good.pair, good.antecedent) or None,
        roles=_positions(good.pair, good.roles),
    )
