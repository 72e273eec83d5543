"""The grammar and the corpus that heed ships: both agree; correct annotations, correct German, difficulty."""

import gzip
import itertools
import json
import re
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import pytest
from grammar import lexicon
from grammar.__main__ import main
from grammar.corpus import Contrast, Example, challenge, draw, generate
from grammar.rules import CONTRASTIVE_TAGS, RULES
from grammar.writing import CONTRASTS_PER_TAG, SIZES, line

from heed.errors import HeedError
from heed.evaluation.words import split_punctuation
from heed.files import built_in_corpus

PREFIXES = {"train": 4000, "valid": 200, "test": 500, "long": 40}
"""Pairs of each split of the shipped corpus that these tests read."""


def shipped(name: str) -> list[str]:
    return gzip.decompress((built_in_corpus() / f"{name}.jsonl.gz").read_bytes()).decode().split("\n")[:-1]


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Example]]:
    rows = {name: map(json.loads, shipped(name)[:size]) for name, size in PREFIXES.items()}
    return {name: [Example(**row) for row in split] for name, split in rows.items()}


@pytest.fixture(scope="module")
def examples(corpus: dict[str, list[Example]]) -> list[Example]:
    return [example for split in corpus.values() for example in split]


@pytest.fixture(scope="module")
def contrasts() -> list[Contrast]:
    return challenge(seed=1, per_tag=60)


# The files: published results were measured on them


def test_the_grammar_writes_the_shipped_corpus(contrasts: list[Contrast]) -> None:
    """The first pairs of each split are enough to notice a change of the grammar."""
    drawn: dict[str, list[str]] = defaultdict(list)
    for split, example in islice(draw(seed=1, **SIZES), 1500):
        drawn[split].append(line(example))
    assert min(len(drawn[split]) for split in ("train", "valid", "test")) > 50
    for split, lines in drawn.items():
        assert shipped(split)[: len(lines)] == lines
    start = range(0, len(CONTRASTIVE_TAGS) * CONTRASTS_PER_TAG, CONTRASTS_PER_TAG)
    challenge_set = shipped("challenge")
    assert [row for first in start for row in challenge_set[first : first + 60]] == list(map(line, contrasts))


@pytest.mark.full
def test_the_grammar_writes_all_of_the_shipped_corpus(tmp_path: Path) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    written = sorted(tmp_path.iterdir())
    assert [file.name for file in written] == sorted(file.name for file in built_in_corpus().iterdir())
    for file in written:
        name = file.name.removesuffix(".jsonl.gz")
        assert gzip.decompress(file.read_bytes()).decode().split("\n")[:-1] == shipped(name)


def test_the_shipped_corpus_is_small_and_complete() -> None:
    assert sum(file.stat().st_size for file in built_in_corpus().iterdir()) < 2.5e6
    assert {name: len(shipped(name)) for name in SIZES} == SIZES
    assert len(shipped("challenge")) == len(CONTRASTIVE_TAGS) * CONTRASTS_PER_TAG


def test_the_same_corpus_gives_the_same_bytes(tmp_path: Path) -> None:
    small = ["--train", "30", "--valid", "3", "--test", "3", "--long", "2", "--contrasts", "2"]
    for folder in ("a", "b"):
        assert main(["--out", str(tmp_path / folder), "--seed", "3", *small]) == 0
    for file in (tmp_path / "a").iterdir():
        content = file.read_bytes()
        assert content == (tmp_path / "b" / file.name).read_bytes()
        assert content[4:8] == bytes(4), "no time"
        assert file.stem.encode() not in content[:40], "no name"


# The corpus as data


def test_splits_of_other_seeds_and_the_challenge_set_have_disjoint_sources(
    corpus: dict[str, list[Example]], contrasts: list[Contrast]
) -> None:
    other = generate(seed=2, train=2000, valid=100, test=100, long=20)
    sources = {name: {e.src for e in corpus[name]} | {e.src for e in other[name]} for name in SIZES}
    sources["challenge"] = {contrast.good.src for contrast in contrasts}
    for one, two in itertools.combinations(sources.values(), 2):
        assert not one & two


def test_splits_have_disjoint_parts_of_sources(corpus: dict[str, list[Example]]) -> None:
    def parts(source: str) -> set[str]:
        """Return the source and everything before or after each full stop inside it."""
        stops = [match.end() for match in re.finditer(r"\.", source)]
        return {source} | {part.strip() for stop in stops[:-1] for part in (source[:stop], source[stop:])}

    whole = {name: {example.src for example in split} for name, split in corpus.items()}
    for name in ("valid", "test", "long"):
        assert not whole["train"] & set().union(*map(parts, whole[name]))
    assert whole["train"] & set().union(*map(parts, whole["train"]))  # within a split, parts may recur


def test_a_source_has_one_translation(examples: list[Example], contrasts: list[Contrast]) -> None:
    translations = defaultdict(set)
    for pair in [*examples, *generate(seed=5, train=3000, valid=1, test=1, long=1)["train"]]:
        translations[pair.src].add(pair.tgt)
    for contrast in [*contrasts, *challenge(seed=6, per_tag=20)]:
        translations[contrast.good.src].add(contrast.good.tgt)
    assert all(len(german) == 1 for german in translations.values())


def test_too_large_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grammar.corpus.MAX_FAILED_DRAWS", 3)
    with pytest.raises(HeedError, match="--train 30000"):
        generate(seed=1, train=30000, valid=0, test=0, long=0)
    with pytest.raises(HeedError, match="--contrasts 500 for tag pronoun"):
        challenge(seed=1, per_tag=500)
    assert main(["--out", "nowhere", "--train", "30000"]) == 2


def test_every_split_has_every_phenomenon(corpus: dict[str, list[Example]]) -> None:
    for split in ("train", "test"):
        counts = Counter(example.tag for example in corpus[split])
        assert counts.keys() == RULES.keys()
        assert min(counts.values()) >= 0.04 * len(corpus[split])


# Alignment, antecedents, roles


def test_the_alignment_covers_all_words_except_commas(examples: list[Example]) -> None:
    for example in examples:
        for side, sentence in enumerate((example.src, example.tgt)):
            aligned = {link[side] for link in example.alignment}
            sentence_words = split_punctuation(sentence)
            assert {i for i, word in enumerate(sentence_words) if word != ","} == aligned, sentence


def test_german_pronouns_have_the_gender_of_their_antecedents(examples: list[Example]) -> None:
    nouns = {noun.en: noun for noun in all_nouns()}
    for example in (one for one in examples if one.antecedent):
        src, tgt = split_punctuation(example.src), split_punctuation(example.tgt)
        pronoun = src[example.antecedent["pronoun"]].lower()
        assert pronoun in ("it", "its", "he", "she")
        gender = nouns[src[example.antecedent["right"]]].gender
        german = {tgt[j].lower() for i, j in example.alignment if i == example.antecedent["pronoun"]}
        expected = {"m": "er", "f": "sie", "n": "es"}[gender]
        if pronoun == "its":
            expected = {"m": "sein", "f": "ihr", "n": "sein"}[gender]
            german = {word[: len(expected)] for word in german}
        assert german == {expected}, example
        assert example.antecedent["right"] != example.antecedent["wrong"]
        assert src[example.antecedent["wrong"]] in nouns


def test_roles_agree_with_german_case(examples: list[Example]) -> None:
    """In active clauses of the tag "roles", the agent is nominative and the recipient is dative."""
    seen = 0
    for example in (one for one in examples if one.tag == "roles" and "wurde" not in one.tgt):
        tgt = split_punctuation(example.tgt.lower())
        article = {
            name: {tgt[j] for i, j in example.alignment if i == article_position(example.src, position)}
            for name, position in example.roles.items()
            if name != "verb"
        }
        if split_punctuation(example.src)[example.roles["agent"] + 1] == "that":
            continue  # the relative pronoun shows the case, not the article
        assert article["agent"] <= {"der", "die", "das", "ein", "eine"}, example
        if "recipient" in article:
            assert article["recipient"] <= {"dem", "der"}, example
        seen += 1
    assert seen > 200


def article_position(source: str, noun: int) -> int:
    """Return the position of the article of a noun."""
    src_words = split_punctuation(source.lower())
    return next(i for i in range(noun - 1, -1, -1) if src_words[i] in ("the", "a", "an"))


# Difficulty


# The challenge set


@pytest.mark.parametrize("tag", CONTRASTIVE_TAGS)
def test_no_word_and_no_length_gives_the_correct_translation_away(contrasts: list[Contrast], tag: str) -> None:
    """Words occur as often in correct as in wrong translations; for tag "far" compared without endings (ihr, ihre)."""
    good, bad = Counter(), Counter()
    longer = 0
    for right, wrong in ((one.good.tgt, one.bad) for one in contrasts if one.good.tag == tag):
        ours, theirs = split_punctuation(right), split_punctuation(wrong)
        if tag in ("pronoun", "sense", "far", "agreement"):
            good.update(word[:3] if tag == "far" else word for word in Counter(ours) - Counter(theirs))
            bad.update(word[:3] if tag == "far" else word for word in Counter(theirs) - Counter(ours))
        else:
            good[right] += 1
            bad[wrong] += 1
        longer += (len(ours) > len(theirs)) - (len(ours) < len(theirs))
    assert good == bad
    assert longer == 0


# German grammar, checked with tables that the grammar under test does not use


def all_nouns() -> list[lexicon.Noun]:
    senses = [sense.noun for senses in lexicon.HOMONYMS for sense in senses]
    return [*vars(lexicon.NOUNS).values(), *senses]
