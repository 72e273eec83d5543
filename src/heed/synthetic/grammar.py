"""A synchronous grammar: one syntax tree yields an English sentence, its German translation and their word alignment.

Every node of a tree has two methods, ``english`` and ``german``, that return the node's words in that language. Each
word carries *keys*: the node and slot it comes from. An English and a German word are aligned if they share a key. So
word order, inflection, contractions (zum, einzuzahlen) and words without a counterpart are independent in the two
languages, and the alignment is correct by construction.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from heed.synthetic.lexicon import (
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
"""A node and one of its slots: the part of the meaning that a word expresses."""


class Word(NamedTuple):
    """A word of a sentence, with the keys it expresses."""

    text: str
    keys: frozenset[Hashable] = frozenset()


Words: TypeAlias = list[Word]
COMMA = Word(",")


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a syntax tree. Nodes compare by identity: two noun phrases with equal fields are different nodes."""

    def emit(self, text: str | Iterable[str], *slots: str) -> Words:
        """Return the words of ``text`` (split at spaces if it is a string), with these slots of this node as keys."""
        keys = frozenset([(self, slot) for slot in slots])
        return [Word(word, keys) for word in (text.split() if isinstance(text, str) else text)]


# Noun phrases

DEFINITE: dict[Case, dict[str, str]] = {
    "nom": {"m": "der", "f": "die", "n": "das", "pl": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "pl": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "pl": "den"},
}
EIN_ENDINGS: dict[Case, dict[str, str]] = {
    "nom": {"m": "", "f": "e", "n": "", "pl": "e"},
    "acc": {"m": "en", "f": "e", "n": "", "pl": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "pl": "en"},
}
STRONG_ENDINGS: dict[Case, dict[str, str]] = {
    "nom": {"m": "er", "f": "e", "n": "es", "pl": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "pl": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "pl": "en"},
}
PERSONAL_PRONOUNS: dict[Case, dict[str, str]] = {
    "nom": {"m": "er", "f": "sie", "n": "es"},
    "acc": {"m": "ihn", "f": "sie", "n": "es"},
    "dat": {"m": "ihm", "f": "ihr", "n": "ihm"},
}
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


@dataclass(frozen=True)
class Possessive:
    """A possessive determiner: "his", "her" or "its"; in German sein- or ihr-, by the gender of the owner."""

    en: Literal["his", "her", "its"]
    gender: Gender

    @classmethod
    def of(cls, owner: Noun) -> "Possessive":
        """Return the possessive of a noun with ``sex`` set."""
        return cls("his", "m") if owner.sex == "m" else cls("her", "f")


Determiner: TypeAlias = Literal["the", "a"] | Possessive | None
"""None: a bare plural or a proper name."""


@dataclass(frozen=True, eq=False)
class NounPhrase(Node):
    """A noun with its determiner, adjectives, prepositional attribute, relative clause and apposition."""

    noun: Noun
    determiner: Determiner = "the"
    adjectives: tuple[Adjective, ...] = ()
    plural: bool = False
    attribute: "PrepositionalPhrase | None" = None
    relative: "Clause | None" = None
    name: Noun | None = None
    """A name in apposition: her cat, Alex."""

    @property
    def person(self) -> Literal["1", "3", "pl"]:
        return "pl" if self.plural else "3"

    @property
    def head(self) -> Key:
        return self, "noun"

    def english(self, case: Case) -> Words:
        noun = self.emit(self.noun.english(plural=self.plural), "noun")
        adjectives = [word for adjective in self.adjectives for word in self.emit(adjective.en, adjective.en)]
        nominal = adjectives + noun
        words: Words = []
        if self.determiner == "a":
            words += self.emit("an" if nominal[0].text[0] in "aeiou" else "a", "determiner")
        elif self.determiner is not None:
            words += self.emit(getattr(self.determiner, "en", "the"), "determiner")
        words += nominal
        if self.name:
            words += [COMMA, *self.emit(self.name.en, "name")]
        if self.attribute:
            words += self.attribute.english()
        if self.relative:
            words += self.relative.english()
        return words

    def german(self, case: Case, *, negation: frozenset[Hashable] = frozenset()) -> Words:
        """Return the German words.

        Args:
            case: the case of the phrase.
            negation: the keys of a negation that is expressed by this phrase's article, which turns ein into kein.
        """
        form = "pl" if self.plural else self.noun.gender
        ending = "en"
        words: Words = []
        if self.determiner == "the":
            words += self.emit(DEFINITE[case][form], "determiner")
            if not self.plural and (case == "nom" or (case == "acc" and form != "m")):
                ending = "e"
        else:
            article = "sein" if getattr(self.determiner, "gender", "f") != "f" else "ihr"
            if not isinstance(self.determiner, Possessive):
                article = "kein" if negation else "ein" if self.determiner == "a" else ""
            if article:
                words.append(Word(article + EIN_ENDINGS[case][form], negation | {(self, "determiner")}))
            if not article or (case != "dat" and form != "pl"):
                ending = STRONG_ENDINGS[case][form]
        for adjective in self.adjectives:
            words += self.emit((adjective.stem or adjective.de) + ending, adjective.en)
        words += self.emit(self.noun.german(case, plural=self.plural), "noun")
        if self.name:
            words += self.emit(self.name.de, "name")
        if self.attribute:
            words += self.attribute.german()
        if self.relative:
            words += [COMMA, *self.relative.german("final"), COMMA]
        return words


@dataclass(frozen=True, eq=False)
class Pronoun(Node):
    """A personal pronoun: "he", "she" or "it" in English, er, sie or es in German by ``gender``."""

    en: Literal["he", "she", "it"]
    gender: Gender

    plural = False
    person: Literal["3"] = "3"

    @classmethod
    def of(cls, noun: Noun) -> "Pronoun":
        """Return the pronoun that refers to a noun."""
        if noun.sex is None:
            return cls("it", noun.gender)
        return cls("he", "m") if noun.sex == "m" else cls("she", "f")

    @property
    def head(self) -> Key:
        return self, "noun"

    def english(self, case: Case) -> Words:
        text: str = self.en if case == "nom" else {"he": "him", "she": "her", "it": "it"}[self.en]
        return self.emit(text, "noun")

    def german(self, case: Case) -> Words:
        return self.emit(PERSONAL_PRONOUNS[case][self.gender], "noun")


@dataclass(frozen=True, eq=False)
class FirstPerson(Node):
    """The pronoun "I"."""

    plural = False
    person: Literal["1"] = "1"

    def english(self, case: Case) -> Words:
        return self.emit("I", "noun")

    def german(self, case: Case) -> Words:
        return self.emit("ich", "noun")


@dataclass(frozen=True, eq=False)
class RelativePronoun(Node):
    """A relative pronoun: "that" in English, der, die or das in German."""

    noun: Noun
    plural: bool = False

    @property
    def person(self) -> Literal["3", "pl"]:
        return "pl" if self.plural else "3"

    def english(self, case: Case) -> Words:
        return self.emit("that", "relative")

    def german(self, case: Case) -> Words:
        form = "pl" if self.plural else self.noun.gender
        return self.emit("denen" if (case, form) == ("dat", "pl") else DEFINITE[case][form], "relative")


Nominal: TypeAlias = NounPhrase | Pronoun | FirstPerson | RelativePronoun


@dataclass(frozen=True, eq=False)
class PrepositionalPhrase(Node):
    """A preposition with its noun phrase; German contracts some of them with the article (in dem: im)."""

    preposition: Preposition
    complement: NounPhrase

    def english(self) -> Words:
        return self.emit(self.preposition.en, "preposition") + self.complement.english("acc")

    def german(self) -> Words:
        first, *rest = self.complement.german(self.preposition.case)
        contraction = CONTRACTIONS.get((self.preposition.de, first.text))
        if contraction:
            return [Word(contraction, first.keys | {(self, "preposition")}), *rest]
        return [*self.emit(self.preposition.de, "preposition"), first, *rest]


@dataclass(frozen=True, eq=False)
class Adverb(Node):
    """An adverb without inflection: yesterday, gestern."""

    en: str
    de: str

    def english(self) -> Words:
        return self.emit(self.en, "adverb")

    def german(self) -> Words:
        return self.emit(self.de, "adverb")


Degree: TypeAlias = Literal["", "too", "very"]
DEGREES: dict[Degree, str] = {"": "", "too": "zu", "very": "sehr"}


@dataclass(frozen=True, eq=False)
class PredicateAdjective(Node):
    """A predicative adjective, optionally with "too" or "very" before it."""

    adjective: Adjective
    degree: Degree = ""

    def english(self) -> Words:
        return self.emit(self.degree, "degree") + self.emit(self.adjective.en, "adjective")

    def german(self) -> Words:
        return self.emit(DEGREES[self.degree], "degree") + self.emit(self.adjective.de, "adjective")


# Clauses

Order: TypeAlias = Literal["second", "first", "final"]
"""The position of the German finite verb in its clause."""

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
    """A clause: a subject, a verb, and its complements and adjuncts.

    The English word order is fixed. In German, the argument ``order`` gives the position of the finite verb; the middle
    field is time, recipient, object, place, negation, prepositional object, goal, predicate; the rest of the verb
    (separable prefix, participle, infinitive) closes the clause.
    """

    subject: Nominal
    verb: Verb
    form: Form = "past"
    negated: bool = False
    recipient: NounPhrase | RelativePronoun | None = None
    object: Nominal | None = None
    predicate: PredicateAdjective | None = None
    time: Adverb | PrepositionalPhrase | None = None
    place: PrepositionalPhrase | None = None
    """The place of the event."""
    goal: PrepositionalPhrase | None = None
    """The destination, or the agent of a passive: stands next to the verb."""
    complement: "Clause | None" = None
    """An object clause: (he knew) that she was tired."""
    purpose: "PurposeClause | None" = None
    front: Literal["subject", "time", "place"] = "subject"
    """The constituent that comes first, in both languages."""
    agrees_with: Nominal | None = None
    """The noun phrase that the German verb agrees with. None: the subject. Another one makes an agreement error."""

    # English

    def english(self) -> Words:
        subject, verb = self.subject.english("nom"), self._english_verb()
        rest: Words = []
        fronted: Words = []
        for nominal in (self.recipient, self.object):
            if isinstance(nominal, RelativePronoun):
                fronted += nominal.english("acc")
            elif nominal is not None:
                rest += nominal.english("acc")
        for name in ("goal", "predicate", "place", "time", "complement", "purpose"):
            part = getattr(self, name)
            if part is not None:
                if name == self.front:
                    fronted += part.english()
                else:
                    rest += ([*self.emit("that", "that")] if name == "complement" else []) + part.english()
        return fronted + subject + verb + rest

    def _english_verb(self) -> Words:
        verb, person, negated = self.verb, self.subject.person, self.negated
        neg = ["negation"] if negated else []
        particle = self.emit(verb.particle, "verb")
        if isinstance(self.form, Modal):
            if not negated:
                finite, *to = self.form.en
                auxiliary = self.emit(finite, "finite")
            else:
                dont, *to = self.form.en_negated
                auxiliary = self.emit(dont, "negation", *([] if to else ["finite"]))
                if to:
                    auxiliary += self.emit(to.pop(0), "finite")
            return auxiliary + self.emit(to, "verb") + self.emit(verb.base, "verb") + particle
        if self.form == "perfect":
            return (
                self.emit(HAVE[person][0] + "n't" * negated, "finite", *neg)
                + self.emit(verb.en_participle, "verb")
                + particle
            )
        be = BE_PRESENT if self.form == "present" else BE_PAST
        if self.form == "passive":
            return self.emit(be[person] + "n't" * negated, "finite", *neg) + self.emit(verb.en_participle, "verb")
        if verb is BE:
            return self.emit(be[person] + "n't" * negated, "verb", *neg)
        if verb.gerund and (self.form == "present" or verb.gerund != "going"):
            return (
                self.emit(be[person] + "n't" * negated, *(neg or ["verb"])) + self.emit(verb.gerund, "verb") + particle
            )
        if negated:
            return self.emit("didn't", "negation") + self.emit(verb.base, "verb") + particle
        return self.emit(verb.en_past, "verb") + particle

    # German

    def german(self, order: Order = "second") -> Words:
        indefinite = isinstance(self.object, NounPhrase) and self.object.determiner in ("a", None)
        kein = self.negated and indefinite
        late_object = self.object and (indefinite or self.verb.preposition)
        negation: frozenset[Hashable] = frozenset({(self, "negation")}) if self.negated else frozenset()
        subject = self.subject.german("nom")
        relative: Words = subject if isinstance(self.subject, RelativePronoun) else []
        parts: dict[str, Words] = {}
        if self.time:
            parts["time"] = self.time.german()
        if isinstance(self.recipient, RelativePronoun):
            relative = self.recipient.german("dat")
        elif self.recipient:
            parts["recipient"] = self.recipient.german("dat")
        if isinstance(self.object, RelativePronoun):
            relative = self.object.german(self.verb.case)
        elif self.object and not late_object:
            parts["object"] = self._german_object(negation if kein else frozenset())
        nicht = self.emit("nicht", "negation") if self.negated and not kein else []
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
        preposition = self.emit(self.verb.preposition, "verb")
        if negation and isinstance(self.object, NounPhrase):
            return preposition + self.object.german(case, negation=negation)
        return preposition + self.object.german(case)

    def _german_verb(self, order: Order) -> tuple[Words, Words]:
        """Return the finite verb and the non-finite rest that closes the clause."""
        verb, person = self.verb, (self.agrees_with or self.subject).person
        if isinstance(self.form, Modal):
            return self.emit(_past(self.form.past, person), "finite"), self.emit(verb.infinitive, "verb")
        if self.form == "perfect":
            index = ("1", "3", "pl").index(person)
            auxiliary = HAVE[person][1] if verb.auxiliary == "haben" else BE.present[index]
            return self.emit(auxiliary, "finite"), self.emit(verb.participle, "verb")
        if self.form == "passive":
            return self.emit(_past("wurde", person), "finite"), self.emit(verb.participle, "verb")
        present = self.form == "present"
        finite = verb.present[("1", "3", "pl").index(person)] if present else _past(verb.past, person)
        if order == "final" and " " not in verb.infinitive:
            return self.emit(verb.prefix + finite, "verb"), []
        return self.emit(finite, "verb"), self.emit(verb.prefix, "verb")

    def _german_tail(self) -> Words:
        words: Words = []
        if self.complement:
            words += [COMMA, *self.emit("dass", "that"), *self.complement.german("final"), COMMA]
        if self.purpose:
            words += [COMMA, *self.purpose.german(), COMMA]
        return words


@dataclass(frozen=True, eq=False)
class PurposeClause(Node):
    """A purpose clause: "to see the boat", um das Boot zu sehen."""

    verb: Verb
    object: NounPhrase

    def english(self) -> Words:
        return self.emit("to", "to") + self.emit(self.verb.base, "verb") + self.object.english("acc")

    def german(self) -> Words:
        *zu, infinitive = self.verb.zu_infinitive
        verb = self.emit(zu, "to") + self.emit(infinitive, "verb", *([] if zu else ["to"]))
        return self.emit("um", "to") + self.object.german(self.verb.case) + verb


# Sentences


@dataclass(frozen=True)
class Pair:
    """A text in both languages, as words with keys."""

    en: Words = field(default_factory=list)
    de: Words = field(default_factory=list)

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(self.en + other.en, self.de + other.de)

    def position(self, key: Key) -> int:
        """Return the index of the first English word that has this key."""
        return next(index for index, word in enumerate(self.en) if key in word.keys)

    def alignment(self) -> tuple[tuple[int, int], ...]:
        """Return all (English, German) index pairs of words that share a key, sorted."""
        positions: dict[Hashable, list[int]] = {}
        for j, word in enumerate(self.de):
            for key in word.keys:
                positions.setdefault(key, []).append(j)
        links = {(i, j) for i, word in enumerate(self.en) for key in word.keys for j in positions.get(key, ())}
        return tuple(sorted(links))


def main_clause(clause: Clause) -> Pair:
    """Return a main clause in both languages."""
    return Pair(clause.english(), clause.german())


@dataclass(frozen=True, eq=False)
class ConjunctionNode(Node):
    """A conjunction that joins two clauses."""

    conjunction: Conjunction

    def trailing_clause(self, clause: Clause) -> Pair:
        """Return the conjunction and its clause, to be appended to another clause."""
        en, de = self._conjunctions()
        if self.conjunction.subordinating:
            return Pair(en + clause.english(), [COMMA, *de, *clause.german("final"), COMMA])
        return Pair([COMMA, *en, *clause.english()], [COMMA, *de, *clause.german()])

    def leading_clause(self, subordinate: Clause, clause: Clause) -> Pair:
        """Return a subordinate clause followed by its main clause, whose German verb then comes first."""
        en, de = self._conjunctions()
        return Pair(
            en + subordinate.english() + [COMMA] + clause.english(),
            de + subordinate.german("final") + [COMMA] + clause.german("first"),
        )

    def _conjunctions(self) -> tuple[Words, Words]:
        slot = "conjunction"
        return self.emit(self.conjunction.en, slot), self.emit(self.conjunction.de, slot)


class _Stop(Node):
    pass


def finish_sentence(pair: Pair) -> Pair:
    """Return the text as a sentence: capitalised, with a full stop, and without commas before other punctuation."""
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


def detokenize(words: Sequence[Word]) -> str:
    """Return the words as plain text."""
    return " ".join(word.text for word in words).replace(" ,", ",").replace(" .", ".")
