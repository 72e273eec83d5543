"""A synchronous grammar: trees that are read out in English and in German, remembering which word came from where.

Every node of a tree can say itself in both languages. A spoken word carries *keys*, the places of the tree it comes
from; an English and a German word that share a key are aligned. So word order, inflection, fused words (zum,
einzuzahlen) and words of one language only are each language's own affair, and the gold alignment is always true.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from heed.data.synthetic.lexicon import (
    BE,
    Adjective,
    Case,
    Conjunction,
    Gender,
    Modal,
    Noun,
    Preposition,
    Verb,
)

Key: TypeAlias = tuple["Node", str]
"""A node, and one of the words it stands for."""


class Word(NamedTuple):
    """One word of a sentence and the places of the tree it comes from."""

    text: str
    keys: frozenset[Hashable] = frozenset()


Words: TypeAlias = list[Word]
COMMA = Word(",")


@dataclass(frozen=True, eq=False)
class Node:
    """A part of a sentence. Nodes are themselves: two equal noun phrases are two."""

    def say(self, text: str | Iterable[str], *slots: str) -> Words:
        """Words that stand for these slots of this node."""
        keys = frozenset([(self, slot) for slot in slots])
        return [Word(one, keys) for one in (text.split() if isinstance(text, str) else text)]


# Noun phrases

DEFINITE: dict[Case, dict[str, str]] = {
    "nom": {"m": "der", "f": "die", "n": "das", "pl": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "pl": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "pl": "den"},
}
EIN_ENDING: dict[Case, dict[str, str]] = {
    "nom": {"m": "", "f": "e", "n": "", "pl": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "pl": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "pl": "en"},
}
STRONG_ENDING: dict[Case, dict[str, str]] = {
    "nom": {"m": "er", "f": "e", "n": "es", "pl": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "pl": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "pl": "en"},
}
PERSONAL: dict[Case, dict[str, str]] = {
    "nom": {"m": "er", "f": "sie", "n": "es"},
    "acc": {"m": "ihn", "f": "sie", "n": "es"},
    "dat": {"m": "ihm", "f": "ihr", "n": "ihm"},
}
CONTRACTED = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


@dataclass(frozen=True)
class Possessor:
    """Whose: "his", "her" or "its" in English; in German sein- or ihr- by the owner's gender."""

    en: Literal["his", "her", "its"]
    gender: Gender

    @classmethod
    def of(cls, owner: Noun) -> "Possessor":
        """For an owner of whom English says he or she."""
        return cls("his", "m") if owner.sex == "m" else cls("her", "f")


Determiner: TypeAlias = Literal["the", "a"] | Possessor | None
"""None: a bare plural, or a name."""


@dataclass(frozen=True, eq=False)
class NounPhrase(Node):
    """A noun with what stands round it."""

    noun: Noun
    determiner: Determiner = "the"
    adjectives: tuple[Adjective, ...] = ()
    plural: bool = False
    attribute: "Prepositional | None" = None
    relative: "Clause | None" = None
    name: Noun | None = None
    """In apposition: her cat, Alex."""

    @property
    def person(self) -> Literal["1", "3", "pl"]:
        return "pl" if self.plural else "3"

    @property
    def head(self) -> Key:
        return self, "noun"

    def english(self, case: Case) -> Words:
        noun = self.say(self.noun.english(plural=self.plural), "noun")
        described = [word for one in self.adjectives for word in self.say(one.en, one.en)] + noun
        words: Words = []
        if self.determiner == "a":
            words += self.say("an" if described[0].text[0] in "aeiou" else "a", "determiner")
        elif self.determiner is not None:
            words += self.say(getattr(self.determiner, "en", "the"), "determiner")
        words += described
        if self.name:
            words += [COMMA, *self.say(self.name.en, "name")]
        if self.attribute:
            words += self.attribute.english()
        if self.relative:
            words += self.relative.english()
        return words

    def german(self, case: Case, *, negation: frozenset[Hashable] = frozenset()) -> Words:
        """``negation``: the keys of a negation that turns ein into kein."""
        form = "pl" if self.plural else self.noun.gender
        ending = "en"
        words: Words = []
        if self.determiner == "the":
            words += self.say(DEFINITE[case][form], "determiner")
            if not self.plural and (case == "nom" or (case == "acc" and form != "m")):
                ending = "e"
        else:
            article = "sein" if getattr(self.determiner, "gender", "f") != "f" else "ihr"
            if not isinstance(self.determiner, Possessor):
                article = "kein" if negation else "ein" if self.determiner == "a" else ""
            if article:
                spoken = Word(article + EIN_ENDING[case][form], negation | {(self, "determiner")})
                words.append(spoken)
            if not article or (case != "dat" and form != "pl"):
                ending = STRONG_ENDING[case][form]
        for adjective in self.adjectives:
            words += self.say((adjective.stem or adjective.de) + ending, adjective.en)
        words += self.say(self.noun.german(case, plural=self.plural), "noun")
        if self.name:
            words += self.say(self.name.de, "name")
        if self.attribute:
            words += self.attribute.german()
        if self.relative:
            words += [COMMA, *self.relative.german("final"), COMMA]
        return words


@dataclass(frozen=True, eq=False)
class Pronoun(Node):
    """ "he", "she" or "it": what English says; and its gender in German."""

    en: Literal["he", "she", "it"]
    gender: Gender

    plural = False
    person: Literal["3"] = "3"

    @classmethod
    def of(cls, noun: Noun) -> "Pronoun":
        if noun.sex is None:
            return cls("it", noun.gender)
        return cls("he", "m") if noun.sex == "m" else cls("she", "f")

    @property
    def head(self) -> Key:
        return self, "noun"

    def english(self, case: Case) -> Words:
        text: str = self.en if case == "nom" else {"he": "him", "she": "her", "it": "it"}[self.en]
        return self.say(text, "noun")

    def german(self, case: Case) -> Words:
        return self.say(PERSONAL[case][self.gender], "noun")


@dataclass(frozen=True, eq=False)
class Speaker(Node):
    """ "I"."""

    plural = False
    person: Literal["1"] = "1"

    def english(self, case: Case) -> Words:
        return self.say("I", "noun")

    def german(self, case: Case) -> Words:
        return self.say("ich", "noun")


@dataclass(frozen=True, eq=False)
class Relative(Node):
    """The relative pronoun: "that", and der, die, das."""

    noun: Noun
    plural: bool = False

    @property
    def person(self) -> Literal["3", "pl"]:
        return "pl" if self.plural else "3"

    def english(self, case: Case) -> Words:
        return self.say("that", "relative")

    def german(self, case: Case) -> Words:
        form = "pl" if self.plural else self.noun.gender
        return self.say("denen" if (case, form) == ("dat", "pl") else DEFINITE[case][form], "relative")


Nominal: TypeAlias = NounPhrase | Pronoun | Speaker | Relative


@dataclass(frozen=True, eq=False)
class Prepositional(Node):
    """A preposition and its noun phrase."""

    preposition: Preposition
    complement: NounPhrase

    def english(self) -> Words:
        return self.say(self.preposition.en, "preposition") + self.complement.english("acc")

    def german(self) -> Words:
        first, *rest = self.complement.german(self.preposition.case)
        fused = CONTRACTED.get((self.preposition.de, first.text))
        if fused:
            return [Word(fused, first.keys | {(self, "preposition")}), *rest]
        return [*self.say(self.preposition.de, "preposition"), first, *rest]


@dataclass(frozen=True, eq=False)
class Adverb(Node):
    """A word or two that go anywhere as they are: yesterday, gestern."""

    en: str
    de: str

    def english(self) -> Words:
        return self.say(self.en, "adverb")

    def german(self) -> Words:
        return self.say(self.de, "adverb")


Degree: TypeAlias = Literal["", "too", "very"]
DEGREES: dict[Degree, str] = {"": "", "too": "zu", "very": "sehr"}


@dataclass(frozen=True, eq=False)
class Predicate(Node):
    """A predicative adjective, with "too" or "very" before it."""

    adjective: Adjective
    degree: Degree = ""

    def english(self) -> Words:
        return self.say(self.degree, "degree") + self.say(self.adjective.en, "adjective")

    def german(self) -> Words:
        return self.say(DEGREES[self.degree], "degree") + self.say(self.adjective.de, "adjective")


# Clauses

Order: TypeAlias = Literal["second", "first", "final"]
"""Where the German finite verb stands."""

Form: TypeAlias = Literal["past", "present", "perfect", "passive"] | Modal

HAVE = {"1": ("have", "habe"), "3": ("has", "hat"), "pl": ("have", "haben")}
BE_PAST = {"1": "was", "3": "was", "pl": "were"}
BE_PRESENT = {"1": "am", "3": "is", "pl": "are"}


def _past(stem: str, person: str) -> str:
    if person != "pl":
        return stem
    return stem + ("n" if stem.endswith("e") else "en")


@dataclass(frozen=True, eq=False)
class Clause(Node):
    """A subject, a verb and what belongs to it.

    In English the order is fixed; in German ``order`` says where the finite verb stands, the middle field is time,
    recipient, object, place, negation, prepositional object, goal, predicate, and the rest of the verb closes it.
    """

    subject: Nominal
    verb: Verb
    form: Form = "past"
    negated: bool = False
    recipient: NounPhrase | Relative | None = None
    object: Nominal | None = None
    predicate: Predicate | None = None
    time: Adverb | Prepositional | None = None
    place: Prepositional | None = None
    """Where it happens."""
    goal: Prepositional | None = None
    """Where to, or by whom: belongs closely to the verb."""
    complement: "Clause | None" = None
    """That he was tired."""
    purpose: "Purpose | None" = None
    front: Literal["subject", "time", "place"] = "subject"
    """What opens the sentence, in both languages."""
    agrees_with: Nominal | None = None
    """What the German verb takes its number from; None: the subject, as it should."""

    # English

    def english(self) -> Words:
        subject, verb = self.subject.english("nom"), self._english_verb()
        rest: Words = []
        moved: Words = []
        for nominal in (self.recipient, self.object):
            if isinstance(nominal, Relative):
                moved += nominal.english("acc")
            elif nominal is not None:
                rest += nominal.english("acc")
        for name in ("goal", "predicate", "place", "time", "complement", "purpose"):
            part = getattr(self, name)
            if part is not None:
                if name == self.front:
                    moved += part.english()
                else:
                    rest += ([*self.say("that", "that")] if name == "complement" else []) + part.english()
        return moved + subject + verb + rest

    def _english_verb(self) -> Words:
        verb, person, negated = self.verb, self.subject.person, self.negated
        neg = ["negation"] if negated else []
        particle = self.say(verb.particle, "verb")
        if isinstance(self.form, Modal):
            if not negated:
                finite, *to = self.form.en
                auxiliary = self.say(finite, "finite")
            else:
                dont, *to = self.form.en_negated
                auxiliary = self.say(dont, "negation", *([] if to else ["finite"]))
                if to:
                    auxiliary += self.say(to.pop(0), "finite")
            return auxiliary + self.say(to, "verb") + self.say(verb.base, "verb") + particle
        if self.form == "perfect":
            return (
                self.say(HAVE[person][0] + "n't" * negated, "finite", *neg)
                + self.say(verb.en_participle, "verb")
                + particle
            )
        be = BE_PRESENT if self.form == "present" else BE_PAST
        if self.form == "passive":
            return self.say(be[person] + "n't" * negated, "finite", *neg) + self.say(verb.en_participle, "verb")
        if verb is BE:
            return self.say(be[person] + "n't" * negated, "verb", *neg)
        if verb.gerund and (self.form == "present" or verb.gerund != "going"):
            return self.say(be[person] + "n't" * negated, *(neg or ["verb"])) + self.say(verb.gerund, "verb") + particle
        if negated:
            return self.say("didn't", "negation") + self.say(verb.base, "verb") + particle
        return self.say(verb.en_past, "verb") + particle

    # German

    def german(self, order: Order = "second") -> Words:
        indefinite = isinstance(self.object, NounPhrase) and self.object.determiner in ("a", None)
        kein = self.negated and indefinite
        late_object = self.object and (indefinite or self.verb.preposition)
        negation: frozenset[Hashable] = frozenset({(self, "negation")}) if self.negated else frozenset()
        subject = self.subject.german("nom")
        relative: Words = subject if isinstance(self.subject, Relative) else []
        parts: dict[str, Words] = {}
        if self.time:
            parts["time"] = self.time.german()
        if isinstance(self.recipient, Relative):
            relative = self.recipient.german("dat")
        elif self.recipient:
            parts["recipient"] = self.recipient.german("dat")
        if isinstance(self.object, Relative):
            relative = self.object.german(self.verb.case)
        elif self.object and not late_object:
            parts["object"] = self._german_object(negation if kein else frozenset())
        nicht = self.say("nicht", "negation") if self.negated and not kein else []
        if self.object is None:
            parts["negation"] = nicht
        if self.place:
            parts["place"] = self.place.german()
        if self.object is not None:
            parts["negation"] = nicht
        if late_object:
            parts["object"] = self._german_object(negation if kein else frozenset())
        if self.goal:
            parts["goal"] = self.goal.german()
        if self.predicate:
            parts["predicate"] = self.predicate.german()
        finite, rest = self._german_verb(order)
        after = self._german_tail()

        front = parts.pop(self.front) if self.front != "subject" else []
        inverted = bool(front) or order == "first"
        middle = [word for part in parts.values() for word in part]
        if order == "final":
            opening = relative or subject
            subject = [] if opening is subject else subject
            return opening + subject + front + middle + rest + finite + after
        if inverted:
            return front + finite + subject + middle + rest + after
        return subject + finite + middle + rest + after

    def _german_object(self, negation: frozenset[Hashable]) -> Words:
        assert self.object is not None
        case: Case = "acc" if self.verb.preposition else self.verb.case
        preposition = self.say(self.verb.preposition, "verb")
        if negation and isinstance(self.object, NounPhrase):
            return preposition + self.object.german(case, negation=negation)
        return preposition + self.object.german(case)

    def _german_verb(self, order: Order) -> tuple[Words, Words]:
        """The finite verb, and what closes the clause."""
        verb, person = self.verb, (self.agrees_with or self.subject).person
        if isinstance(self.form, Modal):
            return self.say(_past(self.form.past, person), "finite"), self.say(verb.infinitive, "verb")
        if self.form == "perfect":
            index = ("1", "3", "pl").index(person)
            auxiliary = HAVE[person][1] if verb.auxiliary == "haben" else BE.present[index]
            return self.say(auxiliary, "finite"), self.say(verb.participle, "verb")
        if self.form == "passive":
            return self.say(_past("wurde", person), "finite"), self.say(verb.participle, "verb")
        present = self.form == "present"
        finite = verb.present[("1", "3", "pl").index(person)] if present else _past(verb.past, person)
        if order == "final" and " " not in verb.infinitive:
            return self.say(verb.prefix + finite, "verb"), []
        return self.say(finite, "verb"), self.say(verb.prefix, "verb")

    def _german_tail(self) -> Words:
        words: Words = []
        if self.complement:
            words += [COMMA, *self.say("dass", "that"), *self.complement.german("final"), COMMA]
        if self.purpose:
            words += [COMMA, *self.purpose.german(), COMMA]
        return words


@dataclass(frozen=True, eq=False)
class Purpose(Node):
    """ "to see the boat": um … zu."""

    verb: Verb
    object: NounPhrase

    def english(self) -> Words:
        return self.say("to", "to") + self.say(self.verb.base, "verb") + self.object.english("acc")

    def german(self) -> Words:
        *zu, infinitive = self.verb.zu_infinitive
        verb = self.say(zu, "to") + self.say(infinitive, "verb", *([] if zu else ["to"]))
        return self.say("um", "to") + self.object.german(self.verb.case) + verb


# Sentences


@dataclass(frozen=True)
class Pair:
    """The same in both languages."""

    en: Words = field(default_factory=list)
    de: Words = field(default_factory=list)

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(self.en + other.en, self.de + other.de)

    def position(self, key: Key) -> int:
        """Where the English word of a key stands."""
        return next(index for index, word in enumerate(self.en) if key in word.keys)

    def alignment(self) -> tuple[tuple[int, int], ...]:
        """All (English, German) positions whose words come from the same place."""
        spoken: dict[Hashable, list[int]] = {}
        for j, word in enumerate(self.de):
            for key in word.keys:
                spoken.setdefault(key, []).append(j)
        links = {(i, j) for i, word in enumerate(self.en) for key in word.keys for j in spoken.get(key, ())}
        return tuple(sorted(links))


def main(clause: Clause) -> Pair:
    """A main clause."""
    return Pair(clause.english(), clause.german())


@dataclass(frozen=True, eq=False)
class Link(Node):
    """A conjunction at work."""

    conjunction: Conjunction

    def join(self, clause: Clause) -> Pair:
        """The conjunction and its clause, to stand behind another clause."""
        en, de = self.say(self.conjunction.en, "link"), self.say(self.conjunction.de, "link")
        if self.conjunction.subordinating:
            return Pair(en + clause.english(), [COMMA, *de, *clause.german("final"), COMMA])
        return Pair([COMMA, *en, *clause.english()], [COMMA, *de, *clause.german()])

    def open(self, subordinate: Clause, clause: Clause) -> Pair:
        """A subordinate clause and its main clause behind it, which German then opens with the verb."""
        en, de = self.say(self.conjunction.en, "link"), self.say(self.conjunction.de, "link")
        return Pair(
            en + subordinate.english() + [COMMA] + clause.english(),
            de + subordinate.german("final") + [COMMA] + clause.german("first"),
        )


class _Stop(Node):
    pass


def sentence(pair: Pair) -> Pair:
    """A finished sentence: capital letter, full stop, and no comma beside another sign."""
    stop = Word(".", frozenset({(_Stop(), "stop")}))

    def finish(words: Sequence[Word]) -> Words:
        kept = [
            word
            for word, following in zip(words, [*words[1:], stop], strict=True)
            if word.text != "," or following.text not in (",", ".")
        ]
        first = Word(kept[0].text[0].upper() + kept[0].text[1:], kept[0].keys)
        return [first, *kept[1:], stop]

    return Pair(finish(pair.en), finish(pair.de))


def text(words: Sequence[Word]) -> str:
    """Words as they are written."""
    return " ".join(word.text for word in words).replace(" ,", ",").replace(" .", ".")
