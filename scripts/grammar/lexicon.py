"""The bilingual lexicon of the built-in corpus: words in English and German with their grammatical features.

Nouns, adjectives and verbs are in ``lexicon.toml``.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

Gender = Literal["m", "f", "n"]
Case = Literal["nom", "acc", "dat"]
Word = TypeVar("Word")


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun and its translation.

    Attributes:
        gender: the German grammatical gender.
        sex: "m" or "f" if the English pronoun is "he" or "she"; None if it is "it".
        weak: the German accusative and dative singular of a weak noun (der Junge, den Jungen).
        mass: "yes" for a mass noun, which has no indefinite article.
    """

    en: str
    de: str
    gender: Gender
    en_plural: str = ""
    de_plural: str = ""
    sex: Literal["m", "f"] | None = None
    weak: str = ""
    mass: Literal["", "yes"] = ""

    def english(self, *, plural: bool) -> str:
        """Return the English form."""
        return self.en_plural if plural else self.en

    def german(self, case: Case, *, plural: bool) -> str:
        """Return the German form."""
        if not plural:
            return self.weak if self.weak and case != "nom" else self.de
        return self.de_plural + ("n" if case == "dat" and self.de_plural[-1] not in "ns" else "")


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective; ``stem`` is the German stem before endings if it differs from ``de`` (müde: ein müd-er Hund)."""

    en: str
    de: str
    stem: str = ""


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with the forms that the grammar uses.

    Attributes:
        en, en_past, en_participle: the English forms, with their particle (pick *up*).
        infinitive, past, participle: the German forms; ``past`` is the third person singular, without ``prefix``.
        prefix: the German separable prefix (*auf*heben).
        gerund: the English -ing form, given for durative verbs, whose past is progressive (was sleeping).
        case: the case of the German object.
        preposition: the German preposition before the object, if there is one (gegen den Ball treten).
        auxiliary: the German auxiliary of the perfect.
        present: German present forms, separated by commas: first person singular, third person singular, plural.
    """

    en: str
    en_past: str
    en_participle: str
    infinitive: str
    past: str
    participle: str
    prefix: str = ""
    gerund: str = ""
    case: Case = "acc"
    preposition: str = ""
    auxiliary: Literal["haben", "sein"] = "haben"
    present: str = ""

    @property
    def zu_infinitive(self) -> tuple[str, ...]:
        """The words of the zu-infinitive: (zu, sehen), but (einzuzahlen,) for a separable verb."""
        if not self.prefix:
            return "zu", self.infinitive
        return (f"{self.prefix}zu{self.infinitive.removeprefix(self.prefix)}",)


@dataclass(frozen=True, eq=False)
class Preposition:
    """A preposition in one sense, with the German case it governs (in: in der Tasche; into: in die Tasche)."""

    en: str
    de: str
    case: Case


@dataclass(frozen=True, eq=False)
class Modal:
    """A modal verb in the past: wanted to, wollte.

    Attributes:
        en, de: the past forms.
        base: the English form after "didn't"; empty for a verb that is negated without "do" (couldn't).
        to: "to", if the English verb needs it.
    """

    en: str
    de: str
    base: str = ""
    to: str = ""


@dataclass(frozen=True, eq=False)
class Conjunction:
    """A conjunction; a subordinating one puts the German finite verb at the end of its clause."""

    en: str
    de: str
    subordinating: bool


class Sense(NamedTuple):
    """One translation of an English noun that has two."""

    noun: Noun
    places: tuple[tuple[Preposition, Noun], ...]  # places that select it


class Words(Generic[Word]):
    """The words of a section of ``lexicon.toml``, as attributes: ``NOUNS.dog``."""

    def __init__(self, kind: Callable[..., Word], section: Mapping[str, str]) -> None:
        vars(self).update({key: _read_word(kind, key, entry) for key, entry in section.items()})

    def __getattr__(self, key: str) -> Word:
        raise AttributeError(f"lexicon.toml has no word {key}.")


def _read_word(kind: Callable[..., Word], key: str, entry: str) -> Word:
    """Return the word of an entry: its forms, then its features as name=value, with "_" for a space."""
    parts = [part.replace("_", " ").rpartition("=") for part in entry.split()]
    features = {"en": key.replace("_", " ")} | {name: value for name, _, value in parts if name}
    return kind(features.pop("en"), *(form for name, _, form in parts if not name), **features)


# Prepositions

IN, INTO = Preposition("in", "in", "dat"), Preposition("into", "in", "acc")
ON, UNDER = Preposition("on", "auf", "dat"), Preposition("under", "unter", "dat")
BEHIND, BESIDE = Preposition("behind", "hinter", "dat"), Preposition("beside", "neben", "dat")
TO, IN_THE_COURSE_OF = Preposition("to", "zu", "dat"), Preposition("in", "an", "dat")
BY, WITH = Preposition("by", "von", "dat"), Preposition("with", "mit", "dat")

# Modal verbs and conjunctions

MODALS = Modal("wanted", "wollte", "want", "to"), Modal("had", "musste", "have", "to"), Modal("could", "konnte")

BECAUSE, WHEN = Conjunction("because", "weil", True), Conjunction("when", "als", True)
WHILE, ALTHOUGH = Conjunction("while", "während", True), Conjunction("although", "obwohl", True)
AND, BUT = Conjunction("and", "und", False), Conjunction("but", "aber", False)

# Nouns, adjectives and verbs

_SECTIONS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_GROUPS: Mapping[str, Mapping[str, str]] = _SECTIONS["nouns"]
NOUNS = Words(Noun, {key: entry for group in _GROUPS.values() for key, entry in group.items()})
ADJECTIVES = Words(Adjective, _SECTIONS["adjectives"])
VERBS = Words(Verb, _SECTIONS["verbs"])


def nouns(names: str) -> tuple[Noun, ...]:
    """Return the nouns with these names, separated by spaces. The name of a group stands for all of its nouns."""
    keys = (key for name in names.split() for key in _GROUPS.get(name, [name]))
    return tuple(getattr(NOUNS, key) for key in keys)


PERSONS, ANIMALS, THINGS, CONTAINERS, FOOD = map(nouns, ("persons", "animals", "things", "containers", "food"))
BEINGS = PERSONS + ANIMALS

ACTIVITIES = {
    agents: (nouns(agents), [(getattr(VERBS, verb), nouns(objects)) for verb, objects in verbs.items()])
    for agents, verbs in _SECTIONS["activities"].items()
}
"""For persons and for animals: the nouns, and what they do, as verbs with their possible objects."""


def _read_sense(en: str, noun: str, places: Iterable[str]) -> Sense:
    prepositions = {"in": IN, "on": ON, "beside": BESIDE}
    words = (place.split() for place in places)
    return Sense(_read_word(Noun, en, noun), tuple((prepositions[first], getattr(NOUNS, key)) for first, key in words))


HOMONYMS = tuple(
    tuple(_read_sense(en, noun, places) for noun, places in senses.items())
    for en, senses in _SECTIONS["homonyms"].items()
)
"""The two senses of each noun."""
