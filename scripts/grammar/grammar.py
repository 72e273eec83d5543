"""A synchronous grammar: one syntax tree yields an English sentence, its German translation and their word alignment.

Every node of a tree has two methods, ``english`` and ``german``, that return its words. Each word carries *keys*: the
node and slot it comes from. An English and a German word are aligned if they share a key. So the alignment is correct
by construction, whatever the word order, inflection, contractions (zum, einzuzahlen) and words without a counterpart.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from grammar.lexicon import VERBS, Adjective, Case, Conjunction, Gender, Modal, Noun, Preposition, Verb

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

FIRST, THIRD, PLURAL = range(3)
"""First and third person singular, and plural: indices of verb forms."""


def _by_case(nominative: str, accusative: str, dative: str) -> dict[Case, dict[str, str]]:
    """Return a table by case and gender from rows of masculine, feminine, neuter and plural; "-" is an empty form."""
    rows: dict[Case, str] = {"nom": nominative, "acc": accusative, "dat": dative}
    forms = {case: row.replace("-", "").split(" ") for case, row in rows.items()}
    return {case: dict(zip(("m", "f", "n", "pl"), row, strict=True)) for case, row in forms.items()}


DEFINITE = _by_case("der die das die", "den die das die", "dem der dem den")
EIN_ENDINGS = _by_case("- e - e", "en e - e", "em er em en")
WEAK_ENDINGS = _by_case("e e e en", "en e e en", "en en en en")
MIXED_ENDINGS = _by_case("er e es en", "en e es en", "en en en en")
STRONG_ENDINGS = _by_case("er e es e", "en e es e", "em er em en")
"""Endings of adjectives after the definite article, after ein-, and without an article."""
PERSONAL_PRONOUNS = _by_case("er sie es sie", "ihn sie es sie", "ihm ihr ihm ihnen")
CONTRACTIONS = {
    ("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am", ("an", "das"): "ans",
    ("zu", "dem"): "zum", ("zu", "der"): "zur", ("von", "dem"): "vom",
}  # fmt: skip


@dataclass(frozen=True)
class Possessive:
    """A possessive determiner: "his", "her" or "its"; in German sein- or ihr-, by the gender of the owner."""

    en: Literal["his", "her", "its"]
    gender: Gender


Determiner: TypeAlias = Literal["the", "a"] | Possessive | None
"""None for a bare plural or a proper name."""


class Nominal(Node, ABC):
    """A noun phrase or a pronoun."""

    plural = False

    @property
    def person(self) -> int:
        """The index of the verb form that agrees with it."""
        return PLURAL if self.plural else THIRD

    @property
    def head(self) -> Key:
        """The key of its noun or pronoun."""
        return self, "noun"

    @abstractmethod
    def english(self, case: Case) -> Words:
        """Return its words in a case."""

    @abstractmethod
    def german(self, case: Case) -> Words:
        """Return its words in a case."""


@dataclass(frozen=True, eq=False)
class NounPhrase(Nominal):
    """A noun with its determiner, adjectives, prepositional attribute, relative clause and apposition."""

    noun: Noun
    determiner: Determiner = "the"
    adjectives: tuple[Adjective, ...] = ()
    plural: bool = False
    attribute: "PrepositionalPhrase | None" = None
    relative: "Clause | None" = None
    name: Noun | None = None  # a name in apposition: her cat, Alex

    def english(self, case: Case) -> Words:
        nominal = [word for adjective in self.adjectives for word in self.emit(adjective.en, adjective.en)]
        nominal += self.emit(self.noun.english(plural=self.plural), "noun")
        article: str = self.determiner.en if isinstance(self.determiner, Possessive) else self.determiner or ""
        if article == "a" and nominal[0].text[0] in "aeiou":
            article = "an"
        words = self.emit(article, "determiner") + nominal
        if self.name:
            words += [COMMA, *self.emit(self.name.en, "name")]
        if self.attribute:
            words += self.attribute.english()
        if self.relative:
            words += self.relative.english()
        return words

    def german(self, case: Case, *, negation: frozenset[Hashable] = frozenset()) -> Words:
        """Return the German words. Given keys of a ``negation``, the article expresses it: kein instead of ein."""
        form = "pl" if self.plural else self.noun.gender
        if self.determiner == "the":
            article, endings = DEFINITE[case][form], WEAK_ENDINGS
        else:
            if isinstance(self.determiner, Possessive):
                stem = "ihr" if self.determiner.gender == "f" else "sein"
            else:
                stem = "kein" if negation else "ein" if self.determiner else ""
            article, endings = stem and stem + EIN_ENDINGS[case][form], MIXED_ENDINGS if stem else STRONG_ENDINGS
        words = [Word(article, negation | {(self, "determiner")})] if article else []
        for adjective in self.adjectives:
            words += self.emit((adjective.stem or adjective.de) + endings[case][form], adjective.en)
        words += self.emit(self.noun.german(case, plural=self.plural), "noun")
        if self.name:
            words += self.emit(self.name.de, "name")
        if self.attribute:
            words += self.attribute.german()
        if self.relative:
            words += [COMMA, *self.relative.german("final"), COMMA]
        return words


@dataclass(frozen=True, eq=False)
class Pronoun(Nominal):
    """A personal pronoun: "he", "she" or "it" in English, er, sie or es in German by ``gender``."""

    en: Literal["he", "she", "it"]
    gender: Gender

    @classmethod
    def of(cls, noun: Noun) -> "Pronoun":
        """Return the pronoun that refers to a noun."""
        if noun.sex is None:
            return cls("it", noun.gender)
        return cls("he", "m") if noun.sex == "m" else cls("she", "f")

    def english(self, case: Case) -> Words:
        return self.emit(self.en if case == "nom" else {"he": "him", "she": "her", "it": "it"}[self.en], "noun")

    def german(self, case: Case) -> Words:
        return self.emit(PERSONAL_PRONOUNS[case][self.gender], "noun")


class FirstPerson(Nominal):
    """The pronoun "I"."""

    person = FIRST

    def english(self, case: Case) -> Words:
        return self.emit("I", "noun")

    def german(self, case: Case) -> Words:
        return self.emit("ich", "noun")


@dataclass(frozen=True, eq=False)
class RelativePronoun(Nominal):
    """A relative pronoun: "that" in English, der, die or das in German."""

    noun: Noun
    plural: bool = False

    def english(self, case: Case) -> Words:
        return self.emit("that", "relative")

    def german(self, case: Case) -> Words:
        form = "pl" if self.plural else self.noun.gender
        return self.emit("denen" if (case, form) == ("dat", "pl") else DEFINITE[case][form], "relative")


@dataclass(frozen=True, eq=False)
class PrepositionalPhrase(Node):
    """A preposition with its noun phrase; German contracts some prepositions with the article (in dem: im)."""

    preposition: Preposition
    complement: NounPhrase

    def english(self) -> Words:
        return self.emit(self.preposition.en, "preposition") + self.complement.english("acc")

    def german(self) -> Words:
        first, *rest = self.complement.german(self.preposition.case)
        if contraction := CONTRACTIONS.get((self.preposition.de, first.text)):
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

Front: TypeAlias = Literal["subject", "time", "place"]  # the constituent that comes first, in both languages

Form: TypeAlias = Literal["past", "present", "perfect", "passive"] | Modal

# By person.
HAVE, HABEN, SEIN = ("have", "has", "have"), ("habe", "hat", "haben"), ("bin", "ist", "sind")
BE_PAST, BE_PRESENT = ("was", "was", "were"), ("am", "is", "are")


def _past(stem: str, person: int) -> str:
    """Return the German past form of a verb, given its third person singular."""
    ending = "n" if stem.endswith("e") else "en"
    return stem + ending if person == PLURAL else stem


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
    place: PrepositionalPhrase | None = None  # the place of the event
    goal: PrepositionalPhrase | None = None  # the destination, or the agent of a passive, next to the verb
    complement: "Clause | None" = None  # an object clause: (he knew) that she was tired
    purpose: "PurposeClause | None" = None
    front: Front = "subject"
    agrees_with: Nominal | None = None  # with the German verb; None: the subject. Any other is an agreement error

    # English

    def english(self) -> Words:
        opening: Words = []
        rest: Words = []
        for nominal in (self.recipient, self.object):
            if nominal is not None:
                part = opening if isinstance(nominal, RelativePronoun) else rest
                part += nominal.english("acc")
        for name in ("goal", "predicate", "place", "time", "complement", "purpose"):
            if constituent := getattr(self, name):
                part = opening if name == self.front else rest
                part += (self.emit("that", "that") if name == "complement" else []) + constituent.english()
        return opening + self.subject.english("nom") + self._english_verb() + rest

    def _english_verb(self) -> Words:
        verb, form, person = self.verb, self.form, self.subject.person
        negation = ["negation"] if self.negated else []
        be = (BE_PRESENT if form == "present" else BE_PAST)[person]
        if isinstance(form, Modal):
            if self.negated and form.base:
                auxiliary = self.emit("didn't", "negation") + self.emit(form.base, "finite")
            else:
                auxiliary = self.emit(form.en + "n't" * self.negated, "finite", *negation)
            return auxiliary + self.emit(f"{form.to} {verb.en}", "verb")
        if form == "perfect":
            finite, slots, rest = HAVE[person], ["finite", *negation], verb.en_participle
        elif form == "passive":
            finite, slots, rest = be, ["finite", *negation], verb.en_participle
        elif verb is VERBS.be:
            finite, slots, rest = be, ["verb", *negation], ""
        elif verb.gerund and (form == "present" or verb.gerund != "going"):
            finite, slots, rest = be, negation or ["verb"], verb.gerund
        elif self.negated:
            finite, slots, rest = "did", negation, verb.en
        else:
            finite, slots, rest = verb.en_past, ["verb"], ""
        return self.emit(finite + "n't" * self.negated, *slots) + self.emit(rest, "verb")

    # German

    def german(self, order: Order = "second") -> Words:
        is_indefinite = isinstance(self.object, NounPhrase) and self.object.determiner in ("a", None)
        nicht = self.emit("nicht", "negation") if self.negated and not is_indefinite else []
        subject = self.subject.german("nom")
        recipient = self.recipient.german("dat") if self.recipient else []
        object_ = self._german_object(negated=self.negated and is_indefinite) if self.object else []
        relative: Words = []
        if isinstance(self.recipient, RelativePronoun):
            relative, recipient = recipient, []
        if isinstance(self.object, RelativePronoun):
            relative, object_ = object_, []
        is_late = is_indefinite or self.verb.preposition
        parts: dict[str, Words] = {
            "time": self.time.german() if self.time else [],
            "recipient": recipient,
            "object": [] if is_late else object_,
            "negation of the verb": [] if self.object else nicht,
            "place": self.place.german() if self.place else [],
            "negation": nicht if self.object else [],
            "late object": object_ if is_late else [],
            "goal": self.goal.german() if self.goal else [],
            "predicate": self.predicate.german() if self.predicate else [],
        }
        front = parts.pop(self.front, [])
        middle = [word for part in parts.values() for word in part]
        finite, rest = self._german_verb(order)
        after: Words = []
        if self.complement:
            after += [COMMA, *self.emit("dass", "that"), *self.complement.german("final"), COMMA]
        if self.purpose:
            after += [COMMA, *self.purpose.german(), COMMA]
        if order == "final":
            return relative + subject + front + middle + rest + finite + after
        if front or order == "first":
            return front + finite + subject + middle + rest + after
        return subject + finite + middle + rest + after

    def _german_object(self, *, negated: bool) -> Words:
        """Return the object with its preposition. If it is ``negated``, its article is kein."""
        assert self.object is not None
        case: Case = "acc" if self.verb.preposition else self.verb.case
        preposition = self.emit(self.verb.preposition, "verb")
        if negated and isinstance(self.object, NounPhrase):
            return preposition + self.object.german(case, negation=frozenset({(self, "negation")}))
        return preposition + self.object.german(case)

    def _german_verb(self, order: Order) -> tuple[Words, Words]:
        """Return the finite verb and the non-finite rest that closes the clause."""
        verb, person = self.verb, (self.agrees_with or self.subject).person
        if isinstance(self.form, Modal):
            return self.emit(_past(self.form.de, person), "finite"), self.emit(verb.infinitive, "verb")
        if self.form == "perfect":
            auxiliary = HABEN if verb.auxiliary == "haben" else SEIN
            return self.emit(auxiliary[person], "finite"), self.emit(verb.participle, "verb")
        if self.form == "passive":
            return self.emit(_past("wurde", person), "finite"), self.emit(verb.participle, "verb")
        finite = verb.present.split(",")[person] if self.form == "present" else _past(verb.past, person)
        if order == "final" and " " not in verb.infinitive:
            return self.emit(verb.prefix + finite, "verb"), []
        return self.emit(finite, "verb"), self.emit(verb.prefix, "verb")


@dataclass(frozen=True, eq=False)
class PurposeClause(Node):
    """A purpose clause: "to see the boat", um das Boot zu sehen."""

    verb: Verb
    object: NounPhrase

    def english(self) -> Words:
        return self.emit("to", "to") + self.emit(self.verb.en, "verb") + self.object.english("acc")

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


def following_clause(conjunction: Conjunction, clause: Clause) -> Pair:
    """Return a conjunction and its clause, to be appended to another clause."""
    en, de = _conjunctions(conjunction)
    if conjunction.subordinating:
        return Pair(en + clause.english(), [COMMA, *de, *clause.german("final"), COMMA])
    return Pair([COMMA, *en, *clause.english()], [COMMA, *de, *clause.german()])


def leading_clause(conjunction: Conjunction, subordinate: Clause, clause: Clause) -> Pair:
    """Return a subordinate clause followed by its main clause, whose German verb then comes first."""
    en, de = _conjunctions(conjunction)
    return Pair(
        en + subordinate.english() + [COMMA] + clause.english(),
        de + subordinate.german("final") + [COMMA] + clause.german("first"),
    )


def _conjunctions(conjunction: Conjunction) -> tuple[Words, Words]:
    node = Node()
    return node.emit(conjunction.en, "conjunction"), node.emit(conjunction.de, "conjunction")


def finish_sentence(pair: Pair) -> Pair:
    """Return the text as a sentence: capitalised, with a full stop, and without commas before other punctuation."""
    (stop,) = Node().emit(".", "stop")

    def finish(words: Words) -> Words:
        followed = zip(words, [*words[1:], stop], strict=True)
        first, *rest = (word for word, after in followed if word.text != "," or after.text not in (",", "."))
        return [Word(first.text[0].upper() + first.text[1:], first.keys), *rest, stop]

    return Pair(finish(pair.en), finish(pair.de))


def detokenize(words: Sequence[Word]) -> str:
    """Return the words as plain text."""
    return " ".join(word.text for word in words).replace(" ,", ",").replace(" .", ".")
