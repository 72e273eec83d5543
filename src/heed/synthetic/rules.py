"""The rules of the grammar: one per linguistic phenomenon.

A rule draws a *schema*, as in a Winograd schema (Levesque et al. 2012): a sentence with two contexts (too tired, too
wide) and two readings (it is the animal, it is the street). Context i with reading i is a correct sentence pair of the
corpus. Context i with the other reading is the minimally different wrong translation of the challenge set; if both
translations are equal, the schema gives no contrastive pair. The challenge set uses both contexts of every schema, so a
model that always prefers the same reading scores 50 %.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal, TypeAlias, TypeVar

from heed.synthetic import lexicon as lex
from heed.synthetic.grammar import (
    Adverb,
    Clause,
    ConjunctionNode,
    Degree,
    FirstPerson,
    Form,
    Key,
    Nominal,
    NounPhrase,
    Pair,
    Possessive,
    PredicateAdjective,
    PrepositionalPhrase,
    Pronoun,
    PurposeClause,
    RelativePronoun,
    finish_sentence,
    main_clause,
)
from heed.synthetic.lexicon import Adjective, Conjunction, Noun, Preposition, Verb

T = TypeVar("T")


class RandomChoices:
    """Seeded random choices that are the same in every Python version.

    Python guarantees reproducibility across versions for ``random.Random.random`` only, so everything derives from it.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options, uniformly."""
        return options[int(self._random.random() * len(options))]

    def choose_two(self, options: Sequence[T]) -> tuple[T, T]:
        """Return two different options, uniformly."""
        first = int(self._random.random() * len(options))
        second = int(self._random.random() * (len(options) - 1))
        return options[first], options[second + (second >= first)]

    def choose_weighted(self, weights: Mapping[str, int]) -> str:
        """Return one of the keys, with a probability proportional to its weight."""
        point = self._random.random() * sum(weights.values())
        return next(name for name, top in zip(weights, accumulate(weights.values()), strict=True) if point < top)

    def bernoulli(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability


@dataclass(frozen=True)
class AnnotatedPair:
    """A sentence pair with its annotations, as keys of the tree."""

    pair: Pair
    antecedent: Mapping[str, Key] = field(default_factory=dict)
    """Keys of "pronoun" and of its "right" and "wrong" antecedent; empty if no pronoun is annotated."""
    roles: Mapping[str, Key] = field(default_factory=dict)
    """Keys of "verb", "agent", "patient" and "recipient", as far as they occur."""


Schema: TypeAlias = Callable[[int, int], AnnotatedPair]
"""``schema(context, reading)``: the sentence pair. Its English side depends on the context alone."""

Rule: TypeAlias = Callable[[RandomChoices], Schema]
"""Draws a schema of one phenomenon."""

DEGREES: tuple[Degree, ...] = ("", "very", "too")
OPTIONAL_VERY = DEGREES[:2]
BEING_ADJECTIVES = (lex.OLD, lex.YOUNG, lex.BIG, lex.SMALL, lex.BEAUTIFUL)
THING_ADJECTIVES = (lex.OLD, lex.NEW, lex.BIG, lex.SMALL, lex.BEAUTIFUL, lex.RED)
PLACE_ADJECTIVES = (lex.BEAUTIFUL, lex.BIG, lex.SMALL)
PLACES = (lex.PARK, lex.GARDEN, lex.VILLAGE, lex.CITY, lex.HOUSE, lex.FOREST)


def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """Return the adjectives that can modify a noun."""
    if noun in lex.CHILDREN:
        return BEING_ADJECTIVES[2:]
    if noun in lex.BEINGS:
        return BEING_ADJECTIVES
    if noun is lex.FLOWER:
        return THING_ADJECTIVES[2:]
    if noun is lex.ICE:
        return ()
    if noun in lex.FOOD:
        return () if noun.mass else (lex.BIG, lex.SMALL)
    return THING_ADJECTIVES if noun in lex.THINGS + lex.CONTAINERS else PLACE_ADJECTIVES


def noun_phrase(
    rng: RandomChoices,
    noun: Noun,
    *,
    indefinite: float = 0.0,
    adjective: float = 0.18,
    plural: bool = False,
    exclude: Sequence[Adjective] = (),
) -> NounPhrase:
    """Draw a noun phrase.

    Args:
        indefinite: probability of the indefinite article; otherwise definite.
        adjective: probability of an adjective.
        exclude: adjectives that are not drawn.
    """
    candidates = [candidate for candidate in adjectives_for(noun) if candidate not in exclude]
    return NounPhrase(
        noun=noun,
        determiner="a" if not noun.mass and rng.bernoulli(indefinite) else "the",
        adjectives=(rng.choose(candidates),) if candidates and rng.bernoulli(adjective) else (),
        plural=plural,
    )


def prepositional(preposition: Preposition, noun: Noun | NounPhrase) -> PrepositionalPhrase:
    """Return a prepositional phrase; a bare noun gets the definite article."""
    return PrepositionalPhrase(
        preposition=preposition, complement=noun if isinstance(noun, NounPhrase) else NounPhrase(noun)
    )


def time_adverbial(rng: RandomChoices) -> Adverb | PrepositionalPhrase:
    """Draw one of: yesterday, in the evening, in the morning."""
    choice = rng.choose((None, lex.EVENING, lex.MORNING))
    return Adverb("yesterday", "gestern") if choice is None else prepositional(lex.IN_THE_COURSE_OF, choice)


def optional_time(rng: RandomChoices) -> Adverb | PrepositionalPhrase | None:
    return time_adverbial(rng) if rng.bernoulli(0.25) else None


def optional_place(rng: RandomChoices) -> PrepositionalPhrase | None:
    return prepositional(lex.IN, rng.choose(PLACES)) if rng.bernoulli(0.2) else None


def semantic_roles(clause: Clause) -> dict[str, Key]:
    """Return the semantic roles of an active clause."""
    nominals: dict[str, Nominal | None] = {
        "agent": clause.subject,
        "patient": clause.object,
        "recipient": clause.recipient,
    }
    heads = {role: node.head for role, node in nominals.items() if isinstance(node, (NounPhrase, Pronoun))}
    return {**heads, "verb": (clause, "verb")}


def _unambiguous(annotated: AnnotatedPair) -> Schema:
    """Return a schema that has the same text in every context and reading, so no contrastive pair."""

    def schema(context: int, reading: int) -> AnnotatedPair:
        return annotated

    return schema


def _contrast_contexts(realise: Callable[[int], AnnotatedPair]) -> Schema:
    """Return a schema whose wrong translation is the correct translation of the other context."""

    def schema(context: int, reading: int) -> AnnotatedPair:
        annotated = realise(context)
        if reading == context:
            return annotated
        return replace(annotated, pair=Pair(annotated.pair.en, realise(reading).pair.de))

    return schema


# Activities of persons and animals

OPENABLE = (lex.DOOR, lex.BOX, lex.SUITCASE, lex.BAG, lex.CABINET)
ACTIVITIES: tuple[tuple[Verb, tuple[Noun, ...]], ...] = (
    (lex.BUY, lex.THINGS + lex.FOOD),
    (lex.SELL, (*lex.THINGS, lex.CAR, lex.HORSE, lex.COW)),
    (lex.VISIT, lex.PERSONS),
    (lex.READ, (lex.BOOK,)),
    (lex.OPEN, OPENABLE),
    (lex.CLOSE, OPENABLE),
    (lex.CALL, lex.PERSONS),
    (lex.INVITE, lex.PERSONS),
    (lex.PICK_UP, lex.THINGS),
    (lex.KICK, (lex.BALL,)),
    (lex.EAT, lex.FOOD),
    (lex.SEE, lex.BEINGS),
    (lex.HEAR, lex.BEINGS),
    (lex.FIND, lex.THINGS),
    (lex.HELP, lex.PERSONS),
    (lex.WAIT_FOR, lex.PERSONS),
    (lex.SLEEP, ()),
    (lex.WORK, ()),
    (lex.PLAY, ()),
    (lex.LAUGH, ()),
    (lex.GET_UP, ()),
    (lex.COME_BACK, ()),
)
ANIMAL_ACTIVITIES: tuple[tuple[Verb, tuple[Noun, ...]], ...] = (
    (lex.SEE, lex.BEINGS),
    (lex.HEAR, lex.BEINGS),
    (lex.CHASE, lex.BEINGS),
    (lex.BITE, lex.BEINGS),
    (lex.FOLLOW, lex.BEINGS),
    (lex.DEVOUR, lex.FOOD),
    (lex.FIND, lex.FOOD),
    (lex.SLEEP, ()),
    (lex.COME_BACK, ()),
)


def activity_clause(
    rng: RandomChoices,
    mentioned: set[Noun],
    *,
    lasting: bool | None = None,
    forms: Sequence[Form] = ("past",),
    extras: float = 0.2,
    timed: bool = True,
) -> Clause:
    """Draw a clause in which a person or an animal does something.

    Args:
        mentioned: nouns that the sentence contains already. They are not drawn again, because "the king" would refer to
            the same king. The nouns of this clause are added to the set.
        lasting: True draws only verbs with a progressive form, False only verbs without; None: any.
        forms: verb forms to draw from.
        extras: probability of a place, and of a time if ``timed``.
        timed: whether a time may be added.
    """
    is_first = not mentioned
    person = rng.bernoulli(0.7)
    participants = lex.PERSONS if person else lex.ANIMALS
    subject = rng.choose([noun for noun in participants if noun not in mentioned] or participants)
    mentioned.add(subject)
    options = [
        (verb, unmentioned)
        for verb, objects in (ACTIVITIES if person else ANIMAL_ACTIVITIES)
        if (lasting is None or bool(verb.gerund) == lasting)
        and ((unmentioned := [noun for noun in objects if noun not in mentioned]) or not objects)
    ]
    verb, objects = rng.choose(options)
    object_phrase = None
    if objects:
        indefinite = (
            0.35 if verb.case == "acc" and not verb.preposition else 0.0
        )  # the dative keinem, keiner would be too rare to learn
        object_phrase = noun_phrase(rng, rng.choose(objects), indefinite=indefinite, adjective=0.25)
        mentioned.add(object_phrase.noun)
    form = rng.choose(forms)
    plural = person and form != "past" and rng.bernoulli(0.3)  # plural auxiliaries are frequent enough to learn
    return Clause(
        subject=(
            Pronoun.of(subject)
            if is_first and subject.sex and not plural and rng.bernoulli(0.06)
            else noun_phrase(rng, subject, plural=plural)
        ),
        verb=verb,
        form=form,
        object=object_phrase,
        time=time_adverbial(rng) if timed and form != "perfect" and rng.bernoulli(extras) else None,
        place=prepositional(lex.IN, rng.choose(PLACES))
        if verb is not lex.COME_BACK and rng.bernoulli(extras)
        else None,
    )


FEELINGS = (lex.TIRED, lex.HUNGRY, lex.LAZY, lex.WEAK, lex.FRIGHTENED)


def reason_clause(rng: RandomChoices, clause: Clause) -> Pair:
    """Draw "because she was tired" about the subject; empty unless the subject is a singular noun with ``sex`` set."""
    subject = clause.subject
    if not (isinstance(subject, NounPhrase) and subject.noun.sex) or subject.plural:
        return Pair()
    feeling = PredicateAdjective(adjective=rng.choose(FEELINGS), degree=rng.choose(OPTIONAL_VERY))
    return ConjunctionNode(lex.BECAUSE).trailing_clause(
        Clause(subject=Pronoun.of(subject.noun), verb=lex.BE, predicate=feeling)
    )


# Pronouns with two possible antecedents, decided by the adjective

OBSTACLES: tuple[tuple[Noun, tuple[Adjective, ...]], ...] = (
    (lex.STREET, (lex.WIDE, lex.CROWDED)),
    (lex.BRIDGE, (lex.NARROW, lex.CROWDED)),
    (lex.RIVER, (lex.WIDE, lex.DEEP)),
    (lex.SQUARE, (lex.WIDE, lex.CROWDED)),
    (lex.FIELD, (lex.WIDE, lex.STEEP)),
    (lex.ICE, (lex.SLIPPERY,)),
)
CROSSER_ADJECTIVES = (lex.TIRED, lex.WEAK, lex.LAZY, lex.FRIGHTENED)
SIZE_ADJECTIVES = (lex.BIG, lex.SMALL)
TOO_BIG, TOO_SMALL = (lex.BIG, lex.THICK), (lex.SMALL, lex.NARROW, lex.FULL)


def ambiguous_pronoun(rng: RandomChoices) -> Schema:
    """Draw: The animal didn't cross the street because it was too tired / too wide."""
    kind = rng.choose(("cross", "cross", "fit", "eat"))
    if kind == "cross":
        place, about_place = rng.choose(OBSTACLES)
        nouns, verb, negated = (rng.choose(lex.ANIMALS), place), lex.CROSS, True
        adjectives = rng.choose(CROSSER_ADJECTIVES), rng.choose(about_place)
    elif kind == "fit":
        nouns, verb, negated = (rng.choose(lex.THINGS), rng.choose(lex.CONTAINERS)), lex.FIT, True
        adjectives = rng.choose(TOO_BIG), rng.choose(TOO_SMALL)
    else:
        nouns, verb, negated = (rng.choose(lex.ANIMALS), rng.choose(lex.FOOD)), lex.DEVOUR, False
        adjectives = rng.choose((lex.HUNGRY, lex.GREEDY)), rng.choose((lex.FRESH, lex.SWEET))
    degree: Degree = rng.choose(OPTIONAL_VERY) if kind == "eat" else "too"
    first, second = (
        noun_phrase(rng, noun, adjective=0.3, exclude=() if kind == "eat" else SIZE_ADJECTIVES) for noun in nouns
    )
    clause = Clause(subject=first, verb=verb, negated=negated, time=time_adverbial(rng) if rng.bernoulli(0.2) else None)
    clause = replace(clause, goal=prepositional(lex.INTO, second)) if kind == "fit" else replace(clause, object=second)
    if clause.time and rng.bernoulli(0.5):
        clause = replace(clause, front="time")

    def realise(context: int, reading: int) -> AnnotatedPair:
        it = Pronoun("it", nouns[reading].gender)
        reason = Clause(subject=it, verb=lex.BE, predicate=PredicateAdjective(adjectives[context], degree))
        return AnnotatedPair(
            finish_sentence(main_clause(clause) + ConjunctionNode(lex.BECAUSE).trailing_clause(reason)),
            antecedent={
                "pronoun": it.head,
                "right": (first, second)[context].head,
                "wrong": (second, first)[context].head,
            },
            roles=semantic_roles(clause),
        )

    return realise


# Word sense: one English word with two German translations


def word_sense(rng: RandomChoices) -> Schema:
    """Draw: I am going to the bank to deposit the cheque. The boat went down the river bank."""
    return rng.choose((_homonym, _homonym, _homonym, _homonym, _bank, _light, _know, _leave, _river_bank))(rng)


def _homonym(rng: RandomChoices) -> Schema:
    homonym = rng.choose(lex.HOMONYMS)
    places = tuple(rng.choose(options) for options in homonym.places)
    noun, verb = rng.choose(lex.PERSONS), rng.choose((lex.SEE, lex.FIND))
    adjectives = (rng.choose(BEING_ADJECTIVES[2:]),) if rng.bernoulli(0.3) else ()
    frame = rng.choose(("place", "place", "front", "front", "relative", "clause"))
    subject = noun_phrase(rng, noun)
    quality = PredicateAdjective(rng.choose((lex.OLD, lex.BIG, lex.SMALL, lex.BEAUTIFUL)), rng.choose(OPTIONAL_VERY))
    before = activity_clause(rng, {noun}, extras=0.0)

    def realise(context: int, reading: int) -> AnnotatedPair:
        thing = NounPhrase(homonym.readings[reading], adjectives=() if frame == "relative" else adjectives)
        preposition, place = places[context]
        where = prepositional(preposition, place)
        if frame == "relative":
            seen = Clause(subject=subject, verb=verb, object=RelativePronoun(thing.noun), place=where)
            clause = Clause(subject=replace(thing, relative=seen), verb=lex.BE, predicate=quality)
            return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(seen))
        clause = Clause(subject=subject, verb=verb, object=thing, place=where)
        if frame == "front":
            clause = replace(clause, front="place")
        if frame == "clause":
            return AnnotatedPair(
                finish_sentence(main_clause(before) + ConjunctionNode(lex.WHEN).trailing_clause(clause)),
                roles=semantic_roles(clause),
            )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return realise


def _bank(rng: RandomChoices) -> Schema:
    first_person = rng.bernoulli(0.4)
    noun = rng.choose(lex.PERSONS)
    subject: Nominal = FirstPerson() if first_person else noun_phrase(rng, noun)
    errands = (
        PurposeClause(rng.choose((lex.DEPOSIT, lex.FIND)), noun_phrase(rng, lex.CHEQUE)),
        PurposeClause(rng.choose((lex.SEE, lex.CATCH)), noun_phrase(rng, lex.FISH, indefinite=0.35)),
    )
    form: Form = "present" if first_person or rng.bernoulli(0.5) else "past"
    adjectives = (rng.choose(PLACE_ADJECTIVES),) if rng.bernoulli(0.3) else ()
    when = None if form == "present" or rng.bernoulli(0.6) else time_adverbial(rng)

    def realise(context: int, reading: int) -> AnnotatedPair:
        bank = NounPhrase(lex.BANK[reading], adjectives=adjectives)
        clause = Clause(
            subject=subject,
            verb=lex.GO,
            form=form,
            goal=prepositional(lex.TO, bank),
            purpose=errands[context],
            time=when,
            front="time" if when else "subject",
        )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return realise


def _river_bank(rng: RandomChoices) -> Schema:
    clause = Clause(
        subject=noun_phrase(rng, lex.BOAT),
        verb=lex.GO_DOWN,
        object=noun_phrase(rng, rng.choose((lex.RIVER, lex.RIVER_BANK))),
        time=time_adverbial(rng) if rng.bernoulli(0.5) else None,
    )
    return _unambiguous(AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause)))


def _light(rng: RandomChoices) -> Schema:
    subjects = (
        noun_phrase(rng, rng.choose((lex.BAG, lex.BOX, lex.SUITCASE, lex.BALL, lex.HAT))),
        noun_phrase(rng, rng.choose((lex.ROOM, lex.HOUSE, lex.KITCHEN, lex.CHURCH))),
    )
    owner, verb = noun_phrase(rng, rng.choose(lex.PERSONS)), rng.choose((lex.SEE, lex.FIND))
    when, degree = time_adverbial(rng), rng.choose(DEGREES)
    form: Form = rng.choose(("past", "present"))

    def realise(context: int, reading: int) -> AnnotatedPair:
        quality = PredicateAdjective((lex.LIGHT_WEIGHT, lex.BRIGHT)[reading], degree)
        found = Clause(subject=owner, verb=verb, object=RelativePronoun(subjects[context].noun), time=when)
        clause = Clause(subject=replace(subjects[context], relative=found), verb=lex.BE, form=form, predicate=quality)
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(found))

    return realise


def _know(rng: RandomChoices) -> Schema:
    one, other = rng.choose_two(lex.HE_OR_SHE)
    subject, known = noun_phrase(rng, one), noun_phrase(rng, other)
    fact = Clause(
        subject=known, verb=lex.BE, predicate=PredicateAdjective(rng.choose(FEELINGS), rng.choose(OPTIONAL_VERY))
    )
    negated = rng.bernoulli(0.3)

    def realise(context: int, reading: int) -> AnnotatedPair:
        clause = Clause(subject=subject, verb=lex.KNOW[reading], negated=negated)
        clause = replace(clause, complement=fact) if context else replace(clause, object=known)
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return realise


def _leave(rng: RandomChoices) -> Schema:
    subject, place = noun_phrase(rng, rng.choose(lex.PERSONS)), noun_phrase(rng, rng.choose(PLACES))
    thing, when = noun_phrase(rng, rng.choose(lex.THINGS)), time_adverbial(rng) if rng.bernoulli(0.5) else None

    def realise(context: int, reading: int) -> AnnotatedPair:
        clause = Clause(subject=subject, verb=lex.LEAVE[reading], time=when)
        clause = (
            replace(clause, object=thing, goal=prepositional(lex.IN, place))
            if context
            else replace(clause, object=place)
        )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return realise


# Semantic roles: the same words in another order

PASSIVE_VERBS = (lex.SEE, lex.HEAR, lex.FIND, lex.CHASE, lex.BITE, lex.CATCH)
REVERSIBLE_VERBS = (*PASSIVE_VERBS, lex.FOLLOW, lex.HELP)


def role_reversal(rng: RandomChoices) -> Schema:
    """Draw: The man bit the dog / the dog bit the man. The first noun is the agent in half of the schemas."""
    agent_first, patient_first = (_active, _eating, _giving, _subject_relative), (_passive, _object_relative)
    return rng.choose(rng.choose((agent_first, patient_first)))(rng)


def _active(rng: RandomChoices) -> Schema:
    verb, participants = rng.choose(REVERSIBLE_VERBS), [noun_phrase(rng, noun) for noun in rng.choose_two(lex.BEINGS)]
    when, where = optional_time(rng), optional_place(rng)

    def realise(context: int) -> AnnotatedPair:
        clause = Clause(
            subject=participants[context], verb=verb, object=participants[1 - context], time=when, place=where
        )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return _contrast_contexts(realise)


def _eating(rng: RandomChoices) -> Schema:
    person, animal = rng.choose(lex.PERSONS), rng.choose((lex.FISH, lex.BEAR, lex.PIG, lex.GOAT))
    when, where = optional_time(rng), optional_place(rng)

    def realise(context: int) -> AnnotatedPair:
        agent, patient = (person, animal) if context == 0 else (animal, person)
        clause = Clause(
            subject=NounPhrase(agent),
            verb=lex.EAT if agent is person else lex.DEVOUR,
            object=NounPhrase(patient, determiner="a"),
            time=when,
            place=where,
        )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return _contrast_contexts(realise)


def _giving(rng: RandomChoices) -> Schema:
    verb = rng.choose((lex.GIVE, lex.SHOW))
    participants = [noun_phrase(rng, noun) for noun in rng.choose_two(lex.PERSONS)]
    gift, when = noun_phrase(rng, rng.choose(lex.THINGS), indefinite=0.35), optional_time(rng)

    def realise(context: int) -> AnnotatedPair:
        clause = Clause(
            subject=participants[context], verb=verb, recipient=participants[1 - context], object=gift, time=when
        )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return _contrast_contexts(realise)


def _passive(rng: RandomChoices) -> Schema:
    verb, participants = rng.choose(PASSIVE_VERBS), [noun_phrase(rng, noun) for noun in rng.choose_two(lex.BEINGS)]
    when = optional_time(rng)

    def realise(context: int) -> AnnotatedPair:
        agent, patient = participants[context], participants[1 - context]
        clause = Clause(subject=patient, verb=verb, form="passive", goal=prepositional(lex.BY, agent), time=when)
        who = {"agent": agent.head, "patient": patient.head, "verb": (clause, "verb")}
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=who)

    return _contrast_contexts(realise)


def _subject_relative(rng: RandomChoices) -> Schema:
    return _relative(rng, of="agent")


def _object_relative(rng: RandomChoices) -> Schema:
    return _relative(rng, of="patient")


def _relative(rng: RandomChoices, *, of: Literal["agent", "patient"]) -> Schema:
    """Draw: The dog that bit the man was tired; the dog that the man bit was tired."""
    verb, participants = rng.choose(REVERSIBLE_VERBS), [noun_phrase(rng, noun) for noun in rng.choose_two(lex.BEINGS)]
    where, quality = optional_place(rng), PredicateAdjective(rng.choose(FEELINGS), rng.choose(DEGREES))

    def realise(context: int) -> AnnotatedPair:
        head, other = participants[context], participants[1 - context]
        that = RelativePronoun(head.noun)
        agent, patient = (that, other) if of == "agent" else (other, that)
        inner = Clause(subject=agent, verb=verb, object=patient, place=where)
        described = replace(head, relative=inner)
        who = {"agent": other.head, "patient": other.head, "verb": (inner, "verb"), of: described.head}
        clause = Clause(subject=described, verb=lex.BE, predicate=quality)
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=who)

    return _contrast_contexts(realise)


# Reference across sentences

WALK_PLACES = (lex.PARK, lex.GARDEN, lex.CITY, lex.FOREST, lex.VILLAGE)
BUILDINGS = (lex.HOUSE, lex.CHURCH, lex.BARN, lex.TOWER)


def distant_reference(rng: RandomChoices) -> Schema:
    """Draw: Sarah was walking in the park with her cat, Alex. She was wearing a beautiful gold watch."""
    return _walk_with_pet(rng) if rng.bernoulli(0.6) else _part_and_whole(rng)


def _walk_with_pet(rng: RandomChoices) -> Schema:
    walker = NounPhrase(rng.choose(lex.NAMES), determiner=None)
    possessive = Possessive.of(walker.noun)
    pet = NounPhrase(rng.choose(lex.PETS), determiner=possessive, name=rng.choose(lex.PET_NAMES))
    park = noun_phrase(rng, rng.choose(WALK_PLACES))
    first = Clause(subject=walker, verb=lex.WALK, goal=prepositional(lex.IN, park), place=prepositional(lex.WITH, pet))
    degree = rng.choose(OPTIONAL_VERY)
    if rng.bernoulli(0.35):
        she = Pronoun.of(walker.noun)
        worn = NounPhrase(
            rng.choose((lex.WATCH, lex.HAT)),
            determiner="a",
            adjectives=rng.choose(
                ((lex.BEAUTIFUL, lex.GOLD), (lex.NEW, lex.GOLD), (lex.OLD, lex.RED), (lex.BEAUTIFUL, lex.RED))
            ),
        )
        second = Clause(subject=she, verb=lex.WEAR, object=worn)
        annotated = AnnotatedPair(
            finish_sentence(main_clause(first)) + finish_sentence(main_clause(second)),
            antecedent={"pronoun": she.head, "right": walker.head, "wrong": pet.head},
            roles=semantic_roles(second),
        )
        return _unambiguous(annotated)
    qualities = rng.choose((lex.HUNGRY, lex.TIRED, lex.LAZY, lex.FRIGHTENED)), rng.choose((lex.GREEN, lex.CROWDED))
    candidates = pet, park

    def realise(context: int, reading: int) -> AnnotatedPair:
        it = Pronoun("it", candidates[reading].noun.gender)
        second = Clause(subject=it, verb=lex.BE, predicate=PredicateAdjective(qualities[context], degree))
        return AnnotatedPair(
            finish_sentence(main_clause(first)) + finish_sentence(main_clause(second)),
            antecedent={"pronoun": it.head, "right": candidates[context].head, "wrong": candidates[1 - context].head},
            roles=semantic_roles(first),
        )

    return realise


def _part_and_whole(rng: RandomChoices) -> Schema:
    owners = noun_phrase(rng, rng.choose(lex.ANIMALS)), noun_phrase(rng, rng.choose(BUILDINGS))
    first = Clause(
        subject=owners[0],
        verb=lex.SLEEP,
        place=prepositional(rng.choose((lex.BEHIND, lex.BESIDE, lex.IN)), owners[1]),
        time=time_adverbial(rng) if rng.bernoulli(0.3) else None,
    )
    part = rng.choose((lex.TAIL, lex.HEAD, lex.NOSE)), rng.choose((lex.DOOR, lex.DOOR, lex.ROOF, lex.WINDOW))
    quality = PredicateAdjective(rng.choose((lex.BIG, lex.SMALL, lex.BEAUTIFUL)), rng.choose(OPTIONAL_VERY))

    def realise(context: int, reading: int) -> AnnotatedPair:
        its = NounPhrase(part[context], determiner=Possessive("its", owners[reading].noun.gender))
        second = Clause(subject=its, verb=lex.BE, predicate=quality)
        return AnnotatedPair(
            finish_sentence(main_clause(first)) + finish_sentence(main_clause(second)),
            antecedent={
                "pronoun": (its, "determiner"),
                "right": owners[context].head,
                "wrong": owners[1 - context].head,
            },
            roles=semantic_roles(first),
        )

    return realise


# Subject-verb agreement across an intervening noun

LOCATIONS: tuple[tuple[Preposition, tuple[Noun, ...]], ...] = (
    (lex.ON, (lex.TABLE, lex.CHAIR, lex.BOX)),
    (lex.UNDER, (lex.TABLE, lex.CHAIR, lex.CAR)),
    (lex.IN, (lex.BAG, lex.CABINET, lex.CAR, lex.BOX)),
    (lex.BEHIND, (lex.HOUSE, lex.CAR)),
)


def agreement(rng: RandomChoices) -> Schema:
    """Draw: The keys to the cabinet are old."""
    places: tuple[Noun, ...]
    noun = rng.choose((lex.KEY, lex.CUP, lex.FLOWER, lex.BOOK, lex.PICTURE))
    if noun is lex.KEY and rng.bernoulli(0.7):
        preposition, places = lex.TO, (lex.CABINET, lex.HOUSE, lex.BOX, lex.CAR)
    else:
        preposition, places = rng.choose(LOCATIONS)
    inner, outer = noun_phrase(rng, rng.choose(places)), noun_phrase(rng, noun)
    qualities = [adjective for adjective in (lex.BEAUTIFUL, lex.RED) if adjective not in outer.adjectives]
    quality = PredicateAdjective(
        rng.choose(qualities if outer.adjectives else adjectives_for(noun)), rng.choose(OPTIONAL_VERY)
    )
    same_number = rng.bernoulli(0.3)
    form: Form = rng.choose(("present", "past"))
    finder = noun_phrase(rng, rng.choose(lex.PERSONS)) if rng.bernoulli(0.3) else None
    verb = rng.choose((lex.SEE, lex.BUY, lex.FIND))
    negated = rng.bernoulli(0.2)

    def realise(context: int, reading: int) -> AnnotatedPair:
        near = replace(inner, plural=bool(context) != same_number)
        head = replace(outer, plural=not context, attribute=prepositional(preposition, near))
        if finder:
            seen = Clause(subject=finder, verb=verb, object=RelativePronoun(noun, plural=not context))
            head = replace(head, relative=seen)
        clause = Clause(
            subject=head,
            verb=lex.BE,
            form=form,
            predicate=quality,
            negated=negated,
            agrees_with=head if context == reading else near,
        )
        return AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause))

    return realise


# Negation: the position of nicht, and kein before indefinite nouns

MAIN_FORMS: tuple[Form, ...] = ("past", "past", "perfect", "perfect", *lex.MODALS)
JOINED_FORMS: tuple[Form, ...] = ("past", "past", "past", *lex.MODALS)


def negation(rng: RandomChoices) -> Schema:
    """Draw: The man didn't buy a book. Der Mann kaufte kein Buch."""
    clause = activity_clause(rng, set(), forms=MAIN_FORMS)
    reason = reason_clause(rng, clause) if rng.bernoulli(0.25) else Pair()

    def realise(context: int) -> AnnotatedPair:
        realised = replace(clause, negated=not context)
        return AnnotatedPair(finish_sentence(main_clause(realised) + reason), roles=semantic_roles(realised))

    return _contrast_contexts(realise)


# Long-distance word order: the German verb at the end of its clause


def _conjoined_clause(rng: RandomChoices, mentioned: set[Noun], conjunction: Conjunction) -> Clause:
    """Draw a clause that fits this conjunction: progressive after "while", not progressive after "when"."""
    lasting = {lex.WHILE: True, lex.WHEN: False}.get(conjunction)
    forms: Sequence[Form] = JOINED_FORMS if lasting is None else ("past",)
    return activity_clause(rng, mentioned, lasting=lasting, forms=forms, extras=0.1, timed=False)


def word_order(rng: RandomChoices) -> Schema:
    """Draw: When the farmer came back, the children were sleeping. The man has called the woman."""
    kind = rng.choose(("main", "main", "joined", "opened", "that"))
    if kind == "main":
        clause = activity_clause(rng, set(), forms=("perfect", "perfect", "perfect", *lex.MODALS), extras=0.35)
        if clause.time and rng.bernoulli(0.5):
            clause = replace(clause, front="time")
        return _unambiguous(AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(clause)))
    if kind == "that":
        knower = rng.choose(lex.PERSONS)
        fact = activity_clause(rng, {knower}, forms=("past", *lex.MODALS))
        verb = rng.choose((lex.KNOW[1], lex.HEAR, lex.SEE))
        clause = Clause(subject=noun_phrase(rng, knower), verb=verb, complement=fact)
        return _unambiguous(AnnotatedPair(finish_sentence(main_clause(clause)), roles=semantic_roles(fact)))
    conjunction = rng.choose((lex.BECAUSE, lex.WHEN, lex.WHILE, lex.ALTHOUGH))
    mentioned: set[Noun] = set()
    clause = activity_clause(rng, mentioned, forms=JOINED_FORMS, extras=0.1)
    joined = _conjoined_clause(rng, mentioned, conjunction)
    if kind == "opened":
        return _unambiguous(
            AnnotatedPair(
                finish_sentence(ConjunctionNode(conjunction).leading_clause(joined, clause)),
                roles=semantic_roles(clause),
            )
        )
    return _unambiguous(
        AnnotatedPair(
            finish_sentence(main_clause(clause) + ConjunctionNode(conjunction).trailing_clause(joined)),
            roles=semantic_roles(clause),
        )
    )


# Length: chains of clauses


def clause_chain(rng: RandomChoices, *, at_least: int = 13) -> Schema:
    """Draw: The man opened the door because the dog was hungry, and the woman laughed when …

    Args:
        at_least: English words before the full stop, at least.
    """
    mentioned: set[Noun] = set()
    first = activity_clause(rng, mentioned, forms=JOINED_FORMS, extras=0.1)
    pair, last = main_clause(first), first
    subordinated = False
    while len(pair.en) < at_least:
        if not subordinated and rng.bernoulli(0.3) and (reason := reason_clause(rng, last)).en:
            pair, subordinated = pair + reason, True
            continue
        conjunctions = (
            (lex.AND, lex.BUT) if subordinated else (lex.AND, lex.BUT, lex.BECAUSE, lex.WHEN, lex.WHILE, lex.ALTHOUGH)
        )
        conjunction = rng.choose(conjunctions)
        last = _conjoined_clause(rng, mentioned, conjunction)
        pair, subordinated = pair + ConjunctionNode(conjunction).trailing_clause(last), conjunction.subordinating
    return _unambiguous(AnnotatedPair(finish_sentence(pair), roles=semantic_roles(first)))


RULES: dict[str, Rule] = {
    "pronoun": ambiguous_pronoun,
    "sense": word_sense,
    "roles": role_reversal,
    "far": distant_reference,
    "agreement": agreement,
    "negation": negation,
    "order": word_order,
    "chain": clause_chain,
}
"""The rule of each phenomenon tag."""

TAG_PERCENTAGES = {
    "pronoun": 16,
    "sense": 15,
    "roles": 22,
    "far": 10,
    "agreement": 8,
    "negation": 10,
    "order": 13,
    "chain": 6,
}
"""How often each tag is drawn, in percent."""

CONTRASTIVE_TAGS = ("pronoun", "sense", "roles", "far", "agreement", "negation")
"""Tags whose schemas have two readings, so that they give contrastive pairs."""
