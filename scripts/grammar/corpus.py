"""Draw the corpus: the splits and the challenge set.

The corpus is a function of the seed and the split sizes. The digest of a sentence selects its split, so the splits and
the challenge set share no sentence, whatever their seeds and sizes.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from grammar.grammar import detokenize
from grammar.rules import (
    CONTRASTIVE_TAGS,
    RULES,
    TAG_PERCENTAGES,
    AnnotatedPair,
    RandomChoices,
    Schema,
    clause_chain,
)
from heed.errors import HeedError
from heed.progress import progress_bar, track

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

    def record(self) -> dict[str, Any]:
        """Return the example as a line of JSONL has it."""
        return dict(vars(self))


class Contrast(NamedTuple):
    """A correct example, and a minimally different wrong translation of its source that has the other reading."""

    good: Example
    bad: str

    def record(self) -> dict[str, Any]:
        """Return the contrast as a line of JSONL has it."""
        good = self.good
        return {"src": good.src, "good": good.tgt, "bad": self.bad, "tag": good.tag, "antecedent": good.antecedent}


def generate(*, seed: int, train: int, valid: int, test: int, long: int) -> dict[str, list[Example]]:
    """Generate the splits "train", "valid", "test" and "long" of the given sizes. All sources are distinct.

    Raises:
        HeedError: if the grammar does not generate enough different sentences.
    """
    splits: dict[str, list[Example]] = {"train": [], "valid": [], "test": [], "long": []}
    with progress_bar("Generating the corpus", total=train + valid + test + long, unit="pairs") as bar:
        for split, example in draw(seed=seed, train=train, valid=valid, test=test, long=long):
            splits[split].append(example)
            bar.update()
    return splits


def draw(*, seed: int, train: int, valid: int, test: int, long: int) -> Iterator[tuple[str, Example]]:
    """Yield the examples of `generate` with their splits, in the order in which they are drawn; "long" comes last."""
    rng = RandomChoices(seed)
    missing = {"train": train, "valid": valid, "test": test}
    first_parts: dict[str, tuple[str, AnnotatedPair]] = {}  # by split: waiting for a second part
    seen: set[str] = set()
    failed = 0
    while any(missing.values()):
        failed += 1
        if failed > MAX_FAILED_DRAWS:
            raise HeedError(
                f"The grammar cannot generate --train {train} --valid {valid} --test {test} different sentences: "
                "choose smaller sizes."
            )
        tag = rng.choose_weighted(TAG_PERCENTAGES)
        context = rng.choose((0, 1))
        annotated = RULES[tag](rng)(context, context)
        # Each part of a combined example is assigned by its own digest, so splits do not share parts either.
        split = _split(detokenize(annotated.pair.en))
        if not missing.get(split):
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
        missing[split] -= 1
        failed = 0
        yield split, _example(annotated, tag)
    while long:
        annotated = clause_chain(rng, at_least=LONG_WORDS.start)(0, 0)
        src = detokenize(annotated.pair.en)
        if src not in seen and len(annotated.pair.en) in LONG_WORDS:
            seen.add(src)
            long -= 1
            yield "long", _example(annotated, "chain")


def challenge(*, seed: int, per_tag: int) -> list[Contrast]:
    """Generate ``per_tag`` contrasts (rounded up to even) of every tag in ``CONTRASTIVE_TAGS``.

    No source is in any split of `generate`. The contrasts come in twins, one per context of a schema. The reading that
    is correct in one is wrong in the other, so a constant preference scores exactly 50 %.

    Raises:
        HeedError: if the grammar does not generate enough different pairs.
    """
    tags = track(CONTRASTIVE_TAGS, "Generating the challenge set", unit="phenomena")
    return [contrast for tag in tags for contrast in _contrasts(RandomChoices(seed), tag, per_tag)]


def _contrasts(rng: RandomChoices, tag: str, count: int) -> list[Contrast]:
    found: list[Contrast] = []
    seen: set[str] = set()
    failed = 0
    while len(found) < count:
        schema = RULES[tag](rng)
        failed += 1
        if failed > MAX_FAILED_DRAWS:
            raise HeedError(f"The grammar cannot generate --contrasts {count} for tag {tag}: choose fewer.")
        first = _contrast(schema, 0, tag)
        second = _contrast(schema, 1, tag) if first else None
        if first and second and not {first.good.src, second.good.src} & seen:
            seen |= {first.good.src, second.good.src}
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


def _contrast(schema: Schema, context: int, tag: str) -> Contrast | None:
    """Return None if both readings have the same German text, or if the source belongs to another split."""
    annotated = schema(context, context)
    if _split(detokenize(annotated.pair.en)) != "challenge":
        return None
    good, bad = _example(annotated, tag), schema(context, 1 - context).pair
    assert detokenize(bad.en) == good.src
    return None if detokenize(bad.de) == good.tgt else Contrast(good, detokenize(bad.de))
