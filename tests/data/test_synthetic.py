"""The built-in corpus: reproducible, leak-free, correct German, and as hard as it claims to be."""

import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from heed.data.synthetic import Contrast, Example, challenge, generate, lexicon, words
from heed.data.synthetic.grammar import text
from heed.data.synthetic.rules import CONTRASTED, RULES, Dice
from heed.errors import HeedError
from experiments.hardness import word_for_word

SIZES = {"train": 4000, "valid": 200, "test": 500, "long": 40}


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Example]]:
    return generate(seed=1, **SIZES)


@pytest.fixture(scope="module")
def examples(corpus: dict[str, list[Example]]) -> list[Example]:
    return [example for split in corpus.values() for example in split]


@pytest.fixture(scope="module")
def contrasts() -> list[Contrast]:
    return challenge(seed=1, per_tag=60)


# The corpus as data


def test_same_seed_same_text_in_every_process() -> None:
    program = (
        "from heed.data.synthetic import generate, challenge\n"
        "splits = generate(seed=3, train=200, valid=20, test=20, long=3)\n"
        "print([e for split in splits.values() for e in split], challenge(seed=3, per_tag=4))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    assert len(printed) == 1
    assert "Example(src=" in printed.pop()


def test_another_seed_is_another_corpus(corpus: dict[str, list[Example]]) -> None:
    other = generate(seed=2, train=500, valid=1, test=1, long=1)["train"]
    assert len({e.src for e in other} & {e.src for e in corpus["train"]}) < 250


def test_splits_have_their_sizes_and_share_no_source(corpus: dict[str, list[Example]], examples: list[Example]) -> None:
    assert {name: len(split) for name, split in corpus.items()} == SIZES
    assert len({example.src for example in examples}) == len(examples)


def test_splits_of_other_seeds_and_the_challenge_set_share_no_source_either(
    corpus: dict[str, list[Example]], contrasts: list[Contrast]
) -> None:
    other = generate(seed=2, train=2000, valid=100, test=100, long=20)
    sources = {name: {e.src for e in corpus[name]} | {e.src for e in other[name]} for name in SIZES}
    sources["challenge"] = {contrast.src for contrast in contrasts}
    for one, two in itertools.combinations(sources.values(), 2):
        assert not one & two


def test_splits_share_no_part_of_a_source_either(corpus: dict[str, list[Example]]) -> None:
    def parts(source: str) -> set[str]:
        """Everything before or behind a full stop, the whole included."""
        stops = [match.end() for match in re.finditer(r"\.", source)]
        return {source} | {part.strip() for stop in stops[:-1] for part in (source[:stop], source[stop:])}

    whole = {name: {example.src for example in split} for name, split in corpus.items()}
    for name in ("valid", "test", "long"):
        assert not whole["train"] & set().union(*map(parts, whole[name]))
    assert whole["train"] & set().union(*map(parts, whole["train"]))  # but within a split they do occur


def test_a_source_has_one_translation(examples: list[Example], contrasts: list[Contrast]) -> None:
    translations = defaultdict(set)
    for pair in [*examples, *generate(seed=5, train=3000, valid=1, test=1, long=1)["train"]]:
        translations[pair.src].add(pair.tgt)
    for contrast in [*contrasts, *challenge(seed=6, per_tag=20)]:
        translations[contrast.src].add(contrast.good)
    assert all(len(german) == 1 for german in translations.values())


def test_more_than_there_is_to_say_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heed.data.synthetic.PATIENCE", 3)
    with pytest.raises(HeedError, match="train=30000"):
        generate(seed=1, train=30000, valid=0, test=0, long=0)


def test_every_phenomenon_is_there(corpus: dict[str, list[Example]]) -> None:
    for split in ("train", "test"):
        counts = Counter(example.tag for example in corpus[split])
        assert counts.keys() == RULES.keys()
        assert min(counts.values()) >= 0.04 * len(corpus[split])


def test_lengths(corpus: dict[str, list[Example]]) -> None:
    lengths = {name: [len(words(e.src)) for e in split] for name, split in corpus.items()}
    usual = [*lengths["train"], *lengths["valid"], *lengths["test"]]
    assert 17 <= sum(usual) / len(usual) <= 20
    assert min(usual) <= 5
    assert max(usual) <= 28
    assert min(lengths["long"]) >= 35
    assert max(lengths["long"]) <= 50
    assert min(len(words(e.tgt)) for e in corpus["long"]) > max(len(words(e.tgt)) for e in corpus["train"])


def test_the_lexicon_is_small_and_its_words_occur_often(corpus: dict[str, list[Example]]) -> None:
    for side in ("src", "tgt"):
        counts = Counter(word for example in corpus["train"] for word in words(getattr(example, side)))
        assert 250 <= len(counts) <= 380
        assert sum(count < 5 for count in counts.values()) < 0.1 * len(counts)


def test_meta_is_plain_data(examples: list[Example], contrasts: list[Contrast]) -> None:
    for one in [*examples[:50], *contrasts]:
        assert json.loads(json.dumps(one.meta())) == one.meta()


@pytest.mark.parametrize(
    ("tag", "source", "target"),
    [
        (
            "pronoun",
            "The animal didn't cross the street because it was too tired.",
            "Das Tier überquerte die Straße nicht, weil es zu müde war.",
        ),
        (
            "pronoun",
            "The animal didn't cross the street because it was too wide.",
            "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
        ),
        (
            "sense",
            "I am going to the bank to deposit the cheque.",
            "Ich gehe zur Bank, um den Scheck einzuzahlen.",
        ),
        ("sense", "The boat went down the river bank.", "Das Boot fuhr das Flussufer entlang."),
        ("roles", "The man ate a fish.", "Der Mann aß einen Fisch."),
        ("roles", "The fish ate a man.", "Der Fisch fraß einen Mann."),
        ("roles", "The man bit the dog.", "Der Mann biss den Hund."),
        ("roles", "The dog bit the man.", "Der Hund biss den Mann."),
        ("negation", "He kicked the ball.", "Er trat gegen den Ball."),
        ("agreement", "The keys to the cabinet are old.", "Die Schlüssel zum Schrank sind alt."),
        (
            "far",
            "Sarah was walking in the park with her cat, Alex. She was wearing a beautiful gold watch.",
            "Sarah ging mit ihrer Katze Alex im Park spazieren. Sie trug eine schöne goldene Uhr.",
        ),
    ],
)
def test_the_textbook_sentences_can_be_said(tag: str, source: str, target: str) -> None:
    dice = Dice(1)
    for _ in range(60_000):
        telling = RULES[tag](dice)(context := dice.choose((0, 1)), context)
        if text(telling.pair.en) == source:
            assert text(telling.pair.de) == target
            return
    pytest.fail(f"never drawn: {source}")


# Alignment, antecedents, roles


def test_alignment_covers_all_words_but_commas(examples: list[Example]) -> None:
    for example in examples:
        for side, sentence in enumerate((example.src, example.tgt)):
            aligned = {link[side] for link in example.alignment}
            spoken = words(sentence)
            assert {i for i, word in enumerate(spoken) if word != ","} == aligned, sentence


def test_alignment_follows_the_lexicon(examples: list[Example]) -> None:
    known = defaultdict(set)
    for noun in _nouns():
        for number in (False, True):
            for case in ("nom", "acc", "dat"):
                if noun.english(plural=number):
                    known[noun.english(plural=number)].add(noun.german(case, plural=number))
    checked = 0
    for example in examples:
        src, tgt = words(example.src), words(example.tgt)
        for i, word in enumerate(src):
            if word in known and word not in ("river", "bank"):
                assert {tgt[j] for k, j in example.alignment if k == i} <= known[word], (example.src, word)
                checked += 1
    assert checked > 5000


def test_antecedents_point_at_the_right_words(examples: list[Example]) -> None:
    nouns = {noun.en: noun for noun in _nouns()}
    for example in (one for one in examples if one.antecedent):
        src, tgt = words(example.src), words(example.tgt)
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
    """In active clauses of the roles phenomenon the agent's article is nominative and the patient's is not."""
    seen = 0
    for example in (one for one in examples if one.tag == "roles" and "wurde" not in one.tgt):
        tgt = words(example.tgt.lower())
        article = {
            name: {tgt[j] for i, j in example.alignment if i == _article(example.src, position)}
            for name, position in example.roles.items()
            if name != "verb"
        }
        if words(example.src)[example.roles["agent"] + 1] == "that":
            continue  # the relative pronoun bears the case
        assert article["agent"] <= {"der", "die", "das", "ein", "eine"}, example
        if "recipient" in article:
            assert article["recipient"] <= {"dem", "der"}, example
        seen += 1
    assert seen > 200


def _article(source: str, noun: int) -> int:
    """Where the article of a noun stands."""
    spoken = words(source.lower())
    return next(i for i in range(noun - 1, -1, -1) if spoken[i] in ("the", "a", "an"))


# How hard it is


def test_translating_word_for_word_is_no_way_to_do_it(corpus: dict[str, list[Example]]) -> None:
    assert word_for_word(corpus["train"], corpus["test"]) <= 40


def test_who_does_what_is_in_the_order_alone(corpus: dict[str, list[Example]]) -> None:
    """Of the two directions of a pair of beings neither is the more frequent, in either voice."""
    for passive in (False, True):
        directions = Counter()
        for example in corpus["train"]:
            if example.tag == "roles" and ("wurde" in example.tgt) == passive:
                spoken = words(example.src)
                patient = example.roles.get("recipient", example.roles["patient"])
                directions[spoken[example.roles["agent"]] < spoken[patient]] += 1
        assert abs(directions[True] / directions.total() - 0.5) < 0.06


# The challenge set


def test_the_challenge_has_contrasts_of_every_phenomenon(contrasts: list[Contrast]) -> None:
    assert Counter(contrast.tag for contrast in contrasts) == dict.fromkeys(CONTRASTED, 60)
    assert all(contrast.good != contrast.bad for contrast in contrasts)
    assert len({contrast.src for contrast in contrasts}) == len(contrasts)


@pytest.mark.parametrize("tag", CONTRASTED)
def test_no_word_is_right_more_often_than_it_is_wrong(contrasts: list[Contrast], tag: str) -> None:
    """Nor is the longer sentence. (For "far" without endings: ihr Schwanz, but ihre Tür.)"""
    good, bad = Counter(), Counter()
    longer = 0
    for contrast in (one for one in contrasts if one.tag == tag):
        ours, theirs = words(contrast.good), words(contrast.bad)
        if tag in ("pronoun", "sense", "far", "agreement"):
            good.update(word[:3] if tag == "far" else word for word in Counter(ours) - Counter(theirs))
            bad.update(word[:3] if tag == "far" else word for word in Counter(theirs) - Counter(ours))
        else:
            good[contrast.good] += 1
            bad[contrast.bad] += 1
        longer += (len(ours) > len(theirs)) - (len(ours) < len(theirs))
    assert good == bad
    assert longer == 0


def test_taking_the_first_noun_for_the_agent_is_chance(contrasts: list[Contrast]) -> None:
    first = [
        contrast.roles["agent"] < contrast.roles.get("recipient", contrast.roles["patient"])
        for contrast in contrasts
        if contrast.tag == "roles"
    ]
    assert abs(sum(first) / len(first) - 0.5) < 0.2


def test_taking_the_nearest_or_the_first_noun_for_the_antecedent_is_chance(contrasts: list[Contrast]) -> None:
    for tag in ("pronoun", "far"):
        right_first = [
            c.antecedent["right"] < c.antecedent["wrong"] for c in contrasts if c.tag == tag and c.antecedent
        ]
        assert sum(right_first) * 2 == len(right_first) == 60


# The German, checked against tables that the grammar does not use


def _nouns() -> list[lexicon.Noun]:
    nouns = [value for value in vars(lexicon).values() if isinstance(value, lexicon.Noun)]
    nouns += [
        noun
        for value in vars(lexicon).values()
        if isinstance(value, tuple)
        for noun in value
        if isinstance(noun, lexicon.Noun)
    ]
    return list(dict.fromkeys([*nouns, *(noun for homonym in lexicon.HOMONYMS for noun in homonym.readings)]))


def _verbs() -> list[lexicon.Verb]:
    verbs = [value for value in vars(lexicon).values() if isinstance(value, lexicon.Verb)]
    return [*verbs, *lexicon.KNOW, *lexicon.LEAVE]


# What an article says of case and gender (p: plural), and the ending an adjective takes behind it.
ARTICLES = {
    "der": {("nom", "m"): "e", ("dat", "f"): "en"},
    "die": {("nom", "f"): "e", ("acc", "f"): "e", ("nom", "p"): "en", ("acc", "p"): "en"},
    "das": {("nom", "n"): "e", ("acc", "n"): "e"},
    "den": {("acc", "m"): "en", ("dat", "p"): "en"},
    "dem": {("dat", "m"): "en", ("dat", "n"): "en"},
    "im": {("dat", "m"): "en", ("dat", "n"): "en"},
    "am": {("dat", "m"): "en", ("dat", "n"): "en"},
    "zum": {("dat", "m"): "en", ("dat", "n"): "en"},
    "vom": {("dat", "m"): "en", ("dat", "n"): "en"},
    "zur": {("dat", "f"): "en"},
    "ins": {("acc", "n"): "e"},
    "ein": {("nom", "m"): "er", ("nom", "n"): "es", ("acc", "n"): "es"},
    "eine": {("nom", "f"): "e", ("acc", "f"): "e"},
    "einen": {("acc", "m"): "en"},
    "kein": {("nom", "m"): "er", ("nom", "n"): "es", ("acc", "n"): "es"},
    "keine": {("nom", "f"): "e", ("acc", "f"): "e"},
    "keinen": {("acc", "m"): "en"},
    "sein": {("nom", "m"): "er", ("nom", "n"): "es"},
    "ihr": {("nom", "m"): "er", ("nom", "n"): "es"},
    "seine": {("nom", "f"): "e"},
    "ihre": {("nom", "f"): "e"},
    "seinem": {("dat", "m"): "en", ("dat", "n"): "en"},
    "ihrem": {("dat", "m"): "en", ("dat", "n"): "en"},
    "seiner": {("dat", "f"): "en"},
    "ihrer": {("dat", "f"): "en"},
}
GOVERNED = {
    "auf": {"acc", "dat"}, "in": {"dat", "acc"}, "unter": {"dat"}, "hinter": {"dat"}, "neben": {"dat"},
    "zu": {"dat"}, "mit": {"dat"}, "von": {"dat"}, "gegen": {"acc"},
}  # fmt: skip
SUBJUNCTIONS = {"weil", "als", "während", "obwohl", "dass"}


def test_articles_and_adjectives_agree_with_their_nouns(examples: list[Example]) -> None:
    genders: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for noun in _nouns():
        for case in ("nom", "acc", "dat"):
            genders[noun.german(case, plural=False)].add((case, noun.gender))
            if noun.de_plural:
                genders[noun.german(case, plural=True)].add((case, "p"))
    stems = {
        adjective.stem or adjective.de
        for adjective in vars(lexicon).values()
        if isinstance(adjective, lexicon.Adjective)
    }
    checked = 0
    for example in examples:
        german = words(example.tgt)
        for i, word in enumerate(german):
            article = word.lower()
            if article not in ARTICLES or (i and german[i - 1] == ","):
                continue
            j = i + 1
            endings = []
            while german[j] not in genders and (
                stem := next((s for s in stems if re.fullmatch(f"{s}e[nrsm]?", german[j])), None)
            ):
                endings.append(german[j].removeprefix(stem))
                j += 1
            if german[j] not in genders:
                continue
            fits = {slot: ending for slot, ending in ARTICLES[article].items() if slot in genders[german[j]]}
            if i and german[i - 1].lower() in GOVERNED:
                fits = {slot: ending for slot, ending in fits.items() if slot[0] in GOVERNED[german[i - 1].lower()]}
            assert fits, (example.tgt, word, german[j])
            assert all(ending in fits.values() for ending in endings), (example.tgt, word, german[j])
            checked += 1
    assert checked > 5000


def test_the_verb_closes_subordinate_clauses_and_opens_what_follows_them(examples: list[Example]) -> None:
    past = {verb.prefix.replace("spazieren", "") + verb.past for verb in _verbs()} | {"wurde"}
    finite = past | {form for verb in _verbs() for form in verb.present} | {"wollte", "konnte", "musste", "hat"}
    finite |= {form + ("n" if form.endswith("e") else "en") for form in finite} | {"haben", "sind"}
    simple = {verb.past for verb in _verbs()} | finite
    checked = Counter[str]()
    for example in examples:
        for sentence in example.tgt.rstrip(".").split(". "):
            clauses = [words(clause) for clause in sentence.split(", ")]
            for clause in clauses:
                if clause[0].lower() in SUBJUNCTIONS:
                    assert clause[-1] in finite, example.tgt
                    checked["final"] += 1
            if clauses[0][0].lower() in SUBJUNCTIONS:
                assert clauses[1][0] in simple, example.tgt
                checked["inverted"] += 1
    assert checked["final"] > 400
    assert checked["inverted"] > 50


def test_german_commas_and_capitals(examples: list[Example]) -> None:
    nouns = {form for noun in _nouns() for form in (noun.de, noun.weak, noun.de_plural) if form}
    assert all(noun[0].isupper() for noun in nouns)
    for example in examples:
        assert example.tgt[0].isupper()
        assert example.tgt.endswith(".")
        assert not re.search(r" [.,]|,,|,\.|  |\.\.", example.src + example.tgt), example
        for subjunction in SUBJUNCTIONS:
            assert not re.search(rf"[^,] {subjunction}\b", example.tgt), example


def test_english_articles(examples: list[Example]) -> None:
    for example in examples:
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", example.src), example.src
