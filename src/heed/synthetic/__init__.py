"""The built-in corpus: generated English-German sentence pairs with gold alignments, antecedents and semantic roles.

`lexicon` holds the words, `grammar` the synchronous grammar, `rules` one rule per linguistic phenomenon. The corpus is
a function of the seed and the split sizes. The digest of a sentence selects its split, so the splits and the challenge
set share no sentence, whatever their seeds and sizes.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from heed.errors import HeedError
from heed.progress import progress_bar, track
from heed.synthetic.grammar import detokenize
from heed.synthetic.rules import (
    CONTRASTIVE_TAGS,
    RULES,
    TAG_PERCENTAGES,
    AnnotatedPair,
    RandomChoices,
    Schema,
    clause_chain,
)

__all__ = ["ContrastivePair", "Example", "challenge", "generate", "split_punctuation"]

COMBINE_PROBABILITY = 0.7
"""Probability that two drawn pairs form one example. Longer sources are harder to encode in a vector of fixed size."""
MAX_WORDS = 28  # largest number of words in a source outside "long", counting full stops
LONG_WORDS = range(35, 51)  # number of words in a source of "long"
MAX_FAILED_DRAWS = 100_000
"""Consecutive draws without a new sentence after which generation gives up."""


@dataclass(frozen=True)
class Example:
    """A sentence pair with its annotations. Positions are indices into `split_punctuation` of a sentence."""

    src: str
    tgt: str
    tag: str
    """The phenomenon: a key of `rules.RULES`."""
    alignment: tuple[tuple[int, int], ...]
    """(source position, target position) of aligned words, sorted."""
    antecedent: Mapping[str, int] | None
    """Source positions of "pronoun" and of its "right" and "wrong" antecedent; None if no pronoun is annotated."""
    roles: Mapping[str, int]
    """Source positions of "verb", "agent", "patient" and "recipient", as far as they occur."""

    def meta(self) -> dict[str, Any]:
        """Return everything but the text, as plain data."""
        annotations = {name: value for name, value in vars(self).items() if name not in ("src", "tgt")}
        return {**annotations, "alignment": [list(link) for link in self.alignment]}


@dataclass(frozen=True)
class ContrastivePair:
    """A source with a correct translation and a minimally different wrong one that has the other reading."""

    src: str
    good: str
    bad: str
    tag: str
    antecedent: Mapping[str, int] | None = None
    roles: Mapping[str, int] = field(default_factory=dict)
    """``tag``, ``antecedent`` and ``roles`` are as in `Example`."""


def split_punctuation(sentence: str) -> list[str]:
    """Split a sentence into words and punctuation marks, each mark on its own; "didn't" is one word."""
    return re.findall(r"\w+(?:'\w+)*|[^\w\s]", sentence)


def generate(*, seed: int, train: int, valid: int, test: int, long: int) -> dict[str, list[Example]]:
    """Generate the splits "train", "valid", "test" and "long" of the given sizes. All sources are distinct.

    Raises:
        HeedError: if the grammar does not generate enough different sentences.
    """
    rng = RandomChoices(seed)
    sizes = {"train": train, "valid": valid, "test": test}
    splits: dict[str, list[Example]] = {name: [] for name in (*sizes, "long")}
    first_parts: dict[str, tuple[str, AnnotatedPair]] = {}  # by split: waiting for a second part
    seen: set[str] = set()
    failed = 0
    with progress_bar("Generating the corpus", total=train + valid + test + long, unit="pairs") as bar:
        while any(len(splits[name]) < size for name, size in sizes.items()):
            failed += 1
            if failed > MAX_FAILED_DRAWS:
                raise HeedError(
                    f"data.train={train}, data.valid={valid}, data.test={test} are more sentences than "
                    "data=synthetic can generate: choose smaller sizes."
                )
            tag = rng.choose_weighted(TAG_PERCENTAGES)
            context = rng.choose((0, 1))
            annotated = RULES[tag](rng)(context, context)
            # Each part of a combined example is assigned by its own digest, so splits do not share parts either.
            split = _split(detokenize(annotated.pair.en))
            if len(splits.get(split, ())) >= sizes.get(split, 0):
                continue
            if split in first_parts:
                tag, first = first_parts.pop(split)
                annotated = replace(first, pair=first.pair + annotated.pair)
            elif rng.bernoulli(COMBINE_PROBABILITY):
                first_parts[split] = (tag, annotated)
                continue
            src = detokenize(annotated.pair.en)
            if src in seen or len(annotated.pair.en) > MAX_WORDS:
                continue
            seen.add(src)
            splits[split].append(_example(annotated, tag))
            bar.update()
            failed = 0
        while len(splits["long"]) < long:
            annotated = clause_chain(rng, at_least=LONG_WORDS.start)(0, 0)
            src = detokenize(annotated.pair.en)
            if src not in seen and len(annotated.pair.en) in LONG_WORDS:
                seen.add(src)
                splits["long"].append(_example(annotated, "chain"))
                bar.update()
    return splits


def challenge(*, seed: int, per_tag: int) -> list[ContrastivePair]:
    """Generate ``per_tag`` contrastive pairs (rounded up to even) of every tag in ``CONTRASTIVE_TAGS``.

    No source is in any split of `generate`. The pairs come in twins, one per context of a schema. The reading that is
    correct in one is wrong in the other, so a constant preference scores exactly 50 %.

    Raises:
        HeedError: if the grammar does not generate enough different pairs.
    """
    tags = track(CONTRASTIVE_TAGS, "Generating the challenge set", unit="phenomena")
    return [pair for tag in tags for pair in _contrastive_pairs(RandomChoices(seed), tag, per_tag)]


def _contrastive_pairs(rng: RandomChoices, tag: str, count: int) -> list[ContrastivePair]:
    found: list[ContrastivePair] = []
    seen: set[str] = set()
    failed = 0
    while len(found) < count:
        schema = RULES[tag](rng)
        failed += 1
        if failed > MAX_FAILED_DRAWS:
            raise HeedError(f"per_tag={count} is more than the grammar can generate for tag {tag}: choose fewer.")
        first = _contrastive_pair(schema, 0, tag)
        second = _contrastive_pair(schema, 1, tag) if first else None
        if first and second and not {first.src, second.src} & seen:
            seen |= {first.src, second.src}
            found += [first, second]
            failed = 0
    return found


def _split(src: str) -> str:
    """Return the split of a drawn source: a function of its text, independent of the seed and the sizes."""
    digest = hashlib.sha256(src.encode()).digest()
    percent = int.from_bytes(digest[:8], "big") % 100
    return "train" if percent < 70 else "valid" if percent < 75 else "test" if percent < 80 else "challenge"


def _example(annotated: AnnotatedPair, tag: str) -> Example:
    pair = annotated.pair
    return Example(
        src=detokenize(pair.en),
        tgt=detokenize(pair.de),
        tag=tag,
        alignment=pair.alignment(),
        antecedent={name: pair.position(key) for name, key in annotated.antecedent.items()} or None,
        roles={name: pair.position(key) for name, key in annotated.roles.items()},
    )


def _contrastive_pair(schema: Schema, context: int, tag: str) -> ContrastivePair | None:
    """Return None if both readings have the same German text, or if the source belongs to another split."""
    annotated = schema(context, context)
    if _split(detokenize(annotated.pair.en)) != "challenge":
        return None
    good, bad = _example(annotated, tag), schema(context, 1 - context).pair
    assert detokenize(bad.en) == good.src
    if detokenize(bad.de) == good.tgt:
        return None
    return ContrastivePair(good.src, good.tgt, detokenize(bad.de), tag, good.antecedent, good.roles)
