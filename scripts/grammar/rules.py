"""The rules of the grammar: one per linguistic phenomenon.

A rule draws a *schema*, as in a Winograd schema (Levesque et al. 2012): a sentence with two contexts (too tired, too
wide) and two readings (it is the animal, it is the street). Context i with reading i is a correct sentence pair of the
corpus. Context i with the other reading is the minimally different wrong translation of the challenge set. If both
translations are equal, the schema gives no contrastive pair.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TypeAlias, TypeVar

from grammar import lexicon as lex
from grammar.grammar import (
    Adverb,
    Clause,
    Degree,
    FirstPerson,
    Form,
    Front,
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
    following_clause,
    leading_clause,
    main_clause,
)
from grammar.lexicon import ADJECTIVES as A
from grammar.lexicon import NOUNS as N
from grammar.lexicon import VERBS as V
from grammar.lexicon import Adjective, Conjunction, Noun, Preposition

T = TypeVar("T")


class RandomChoices(random.Random):
    """Seeded random choices that are the same in every Python version.

    Everything derives from ``random``, the only method of `random.Random` that Python guarantees to be reproducible.
    """

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options, uniformly."""
        return options[int(self.random() * len(options))]

    def choose_two(self, options: Sequence[T]) -> tuple[T, T]:
        """Return two different options, uniformly."""
        first = int(self.random() * len(options))
        second = int(self.random() * (len(options) - 1))
        return options[first], options[second + (second >= first)]

    def choose_weighted(self, weights: Mapping[str, int]) -> str:
        """Return one of the keys, with a probability proportional to its weight."""
        point = self.random() * sum(weights.values())
        return next(name for name, top in zip(weights, accumulate(weights.values()), strict=True) if point < top)

    def bernoulli(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability


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

Rule: TypeAlias = Callable[[RandomChoices], Schema]  # draws a schema of one phenomenon

DEGREES: tuple[Degree, ...] = ("", "very", "too")
OPTIONAL_VERY = DEGREES[:2]
BEING_ADJECTIVES = (A.old, A.young, A.big, A.small, A.beautiful)
THING_ADJECTIVES = (A.old, A.new, A.big, A.small, A.beautiful, A.red)
PLACE_ADJECTIVES = (A.beautiful, A.big, A.small)
CHILDREN = (N.boy, N.child, N.girl)
HE_OR_SHE = tuple(person for person in lex.PERSONS if person.sex)
PLACES = (N.park, N.garden, N.village, N.city, N.house, N.forest)


def adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    """Return the adjectives that can modify a noun."""
    if noun in CHILDREN:
        return BEING_ADJECTIVES[2:]
    if noun in lex.BEINGS:
        return BEING_ADJECTIVES
    if noun is N.flower:
        return THING_ADJECTIVES[2:]
    if noun is N.ice:
        return ()
    if noun in lex.FOOD:
        return () if noun.mass else (A.big, A.small)
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
    return PrepositionalPhrase(preposition, noun if isinstance(noun, NounPhrase) else NounPhrase(noun))


def time_adverbial(rng: RandomChoices) -> Adverb | PrepositionalPhrase:
    """Draw one of: yesterday, in the evening, in the morning."""
    choice = rng.choose((None, N.evening, N.morning))
    return Adverb("yesterday", "gestern") if choice is None else prepositional(lex.IN_THE_COURSE_OF, choice)


def optional_time(rng: RandomChoices, probability: float = 0.25) -> Adverb | PrepositionalPhrase | None:
    return time_adverbial(rng) if rng.bernoulli(probability) else None


def optional_place(rng: RandomChoices, probability: float = 0.2) -> PrepositionalPhrase | None:
    return prepositional(lex.IN, rng.choose(PLACES)) if rng.bernoulli(probability) else None


def predicate(
    rng: RandomChoices, adjectives: Sequence[Adjective], degrees: Sequence[Degree] = OPTIONAL_VERY
) -> PredicateAdjective:
    """Draw a predicative adjective with its degree."""
    return PredicateAdjective(rng.choose(adjectives), rng.choose(degrees))


def sentence(
    pair: Pair | Clause,
    *,
    first: Clause | None = None,
    roles: Clause | None = None,
    antecedent: Mapping[str, Key] | None = None,
) -> AnnotatedPair:
    """Return one or two sentences with their annotations.

    Args:
        pair: the clauses of the last sentence; a single clause is a main clause.
        first: the clause of the sentence before it.
        roles: the active clause whose semantic roles are annotated; by default the only one.
        antecedent: as in `AnnotatedPair`.
    """
    if isinstance(pair, Clause):
        roles = roles or pair
        pair = main_clause(pair)
    assert roles
    before = finish_sentence(main_clause(first)) if first else Pair()
    nominals = {"agent": roles.subject, "patient": roles.object, "recipient": roles.recipient}
    heads = {role: node.head for role, node in nominals.items() if isinstance(node, (NounPhrase, Pronoun))}
    return AnnotatedPair(before + finish_sentence(pair), antecedent or {}, {**heads, "verb": (roles, "verb")})


def antecedents(pronoun: Key, candidates: Sequence[NounPhrase], right: int) -> dict[str, Key]:
    """Return the annotation of a pronoun, given its two candidates and the index of the right one."""
    return {"pronoun": pronoun, "right": candidates[right].head, "wrong": candidates[1 - right].head}


def _unambiguous(annotated: AnnotatedPair) -> Schema:
    """Return a schema with the same text in every context and reading, so without a contrastive pair."""
    return lambda *_: annotated


def _contrast_contexts(realise: Callable[[int], AnnotatedPair]) -> Schema:
    """Return a schema whose wrong translation is the correct translation of the other context."""

    def schema(context: int, reading: int) -> AnnotatedPair:
        annotated = realise(context)
        if reading == context:
            return annotated
        return replace(annotated, pair=Pair(annotated.pair.en, realise(reading).pair.de))

    return schema


def _swap(participants: Sequence[NounPhrase], realise: Callable[[NounPhrase, NounPhrase], AnnotatedPair]) -> Schema:
    """Return a schema whose second context swaps the roles of the two participants."""
    return _contrast_contexts(lambda context: realise(participants[context], participants[1 - context]))


# Activities of persons and animals


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
        mentioned: nouns already in the sentence. They are not drawn again, because "the king" would refer to the same
            king. The nouns of this clause are added.
        lasting: True draws only verbs with a progressive form, False only verbs without one, None any verb.
        forms: verb forms to draw from.
        extras: probability of a place, and of a time if ``timed``.
        timed: whether a time may be added.
    """
    is_first = not mentioned
    person = rng.bernoulli(0.7)
    participants, activities = lex.ACTIVITIES["persons" if person else "animals"]
    subject = rng.choose([noun for noun in participants if noun not in mentioned] or participants)
    mentioned.add(subject)
    options = [
        (verb, unmentioned)
        for verb, objects in activities
        if (lasting is None or bool(verb.gerund) == lasting)
        and ((unmentioned := [noun for noun in objects if noun not in mentioned]) or not objects)
    ]
    verb, objects = rng.choose(options)
    object_phrase = None
    if objects:
        # The dative keinem, keiner would be too rare to learn.
        indefinite = 0.35 if verb.case == "acc" and not verb.preposition else 0.0
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
        time=optional_time(rng, extras) if timed and form != "perfect" else None,
        place=optional_place(rng, extras) if verb is not V.come_back else None,
    )


FEELINGS = (A.tired, A.hungry, A.lazy, A.weak, A.frightened)


def reason_clause(rng: RandomChoices, clause: Clause) -> Pair:
    """Draw "because she was tired" about the subject; empty unless the subject is a singular noun with ``sex`` set."""
    subject = clause.subject
    if not (isinstance(subject, NounPhrase) and subject.noun.sex) or subject.plural:
        return Pair()
    reason = Clause(subject=Pronoun.of(subject.noun), verb=V.be, predicate=predicate(rng, FEELINGS))
    return following_clause(lex.BECAUSE, reason)


# Pronouns with two possible antecedents, decided by the adjective

OBSTACLES: tuple[tuple[Noun, tuple[Adjective, ...]], ...] = (
    (N.street, (A.wide, A.crowded)),
    (N.bridge, (A.narrow, A.crowded)),
    (N.river, (A.wide, A.deep)),
    (N.square, (A.wide, A.crowded)),
    (N.field, (A.wide, A.steep)),
    (N.ice, (A.slippery,)),
)
CROSSER_ADJECTIVES = (A.tired, A.weak, A.lazy, A.frightened)
SIZE_ADJECTIVES = (A.big, A.small)
TOO_BIG, TOO_SMALL = (A.big, A.thick), (A.small, A.narrow, A.full)


def ambiguous_pronoun(rng: RandomChoices) -> Schema:
    """Draw: The animal didn't cross the street because it was too tired / too wide."""
    kind = rng.choose(("cross", "cross", "fit", "eat"))
    if kind == "cross":
        place, about_place = rng.choose(OBSTACLES)
        nouns, verb, negated = (rng.choose(lex.ANIMALS), place), V.cross, True
        adjectives = rng.choose(CROSSER_ADJECTIVES), rng.choose(about_place)
    elif kind == "fit":
        nouns, verb, negated = (rng.choose(lex.THINGS), rng.choose(lex.CONTAINERS)), V.fit, True
        adjectives = rng.choose(TOO_BIG), rng.choose(TOO_SMALL)
    else:
        nouns, verb, negated = (rng.choose(lex.ANIMALS), rng.choose(lex.FOOD)), V.devour, False
        adjectives = rng.choose((A.hungry, A.greedy)), rng.choose((A.fresh, A.sweet))
    degree: Degree = rng.choose(OPTIONAL_VERY) if kind == "eat" else "too"
    first, second = (
        noun_phrase(rng, noun, adjective=0.3, exclude=() if kind == "eat" else SIZE_ADJECTIVES) for noun in nouns
    )
    clause = Clause(subject=first, verb=verb, negated=negated, time=optional_time(rng, 0.2))
    clause = replace(clause, goal=prepositional(lex.INTO, second)) if kind == "fit" else replace(clause, object=second)
    if clause.time and rng.bernoulli(0.5):
        clause = replace(clause, front="time")

    def realise(context: int, reading: int) -> AnnotatedPair:
        it = Pronoun("it", nouns[reading].gender)
        reason = Clause(subject=it, verb=V.be, predicate=PredicateAdjective(adjectives[context], degree))
        pair = main_clause(clause) + following_clause(lex.BECAUSE, reason)
        return sentence(pair, roles=clause, antecedent=antecedents(it.head, (first, second), context))

    return realise


# Word sense: one English word with two German translations


def word_sense(rng: RandomChoices) -> Schema:
    """Draw: I am going to the bank to deposit the cheque. The boat went down the river bank."""
    return rng.choose((_homonym, _homonym, _homonym, _homonym, _bank, _light, _know, _leave, _river_bank))(rng)


def _homonym(rng: RandomChoices) -> Schema:
    homonym = rng.choose(lex.HOMONYMS)
    places = [rng.choose(sense.places) for sense in homonym]
    noun, verb = rng.choose(lex.PERSONS), rng.choose((V.see, V.find))
    adjectives = (rng.choose(BEING_ADJECTIVES[2:]),) if rng.bernoulli(0.3) else ()
    frame = rng.choose(("place", "place", "front", "front", "relative", "clause"))
    subject = noun_phrase(rng, noun)
    quality = predicate(rng, (A.old, A.big, A.small, A.beautiful))
    before = activity_clause(rng, {noun}, extras=0.0)

    def realise(context: int, reading: int) -> AnnotatedPair:
        thing = NounPhrase(homonym[reading].noun, adjectives=() if frame == "relative" else adjectives)
        preposition, place = places[context]
        where = prepositional(preposition, place)
        if frame == "relative":
            seen = Clause(subject=subject, verb=verb, object=RelativePronoun(thing.noun), place=where)
            clause = Clause(subject=replace(thing, relative=seen), verb=V.be, predicate=quality)
            return sentence(clause, roles=seen)
        front: Front = "place" if frame == "front" else "subject"
        clause = Clause(subject=subject, verb=verb, object=thing, place=where, front=front)
        if frame == "clause":
            return sentence(main_clause(before) + following_clause(lex.WHEN, clause), roles=clause)
        return sentence(clause)

    return realise


def _bank(rng: RandomChoices) -> Schema:
    first_person = rng.bernoulli(0.4)
    noun = rng.choose(lex.PERSONS)
    subject: Nominal = FirstPerson() if first_person else noun_phrase(rng, noun)
    errands = (
        PurposeClause(rng.choose((V.deposit, V.find)), noun_phrase(rng, N.cheque)),
        PurposeClause(rng.choose((V.see, V.catch)), noun_phrase(rng, N.fish, indefinite=0.35)),
    )
    form: Form = "present" if first_person or rng.bernoulli(0.5) else "past"
    adjectives = (rng.choose(PLACE_ADJECTIVES),) if rng.bernoulli(0.3) else ()
    when = None if form == "present" or rng.bernoulli(0.6) else time_adverbial(rng)

    def realise(context: int, reading: int) -> AnnotatedPair:
        bank = NounPhrase((N.bank, N.bank_of_a_river)[reading], adjectives=adjectives)
        clause = Clause(
            subject=subject,
            verb=V.go,
            form=form,
            goal=prepositional(lex.TO, bank),
            purpose=errands[context],
            time=when,
            front="time" if when else "subject",
        )
        return sentence(clause)

    return realise


def _river_bank(rng: RandomChoices) -> Schema:
    clause = Clause(
        subject=noun_phrase(rng, N.boat),
        verb=V.go_down,
        object=noun_phrase(rng, rng.choose((N.river, N.river_bank))),
        time=optional_time(rng, 0.5),
    )
    return _unambiguous(sentence(clause))


def _light(rng: RandomChoices) -> Schema:
    subjects = (
        noun_phrase(rng, rng.choose((N.bag, N.box, N.suitcase, N.ball, N.hat))),
        noun_phrase(rng, rng.choose((N.room, N.house, N.kitchen, N.church))),
    )
    owner, verb = noun_phrase(rng, rng.choose(lex.PERSONS)), rng.choose((V.see, V.find))
    when, degree = time_adverbial(rng), rng.choose(DEGREES)
    form: Form = rng.choose(("past", "present"))

    def realise(context: int, reading: int) -> AnnotatedPair:
        quality = PredicateAdjective((A.light, A.bright)[reading], degree)
        found = Clause(subject=owner, verb=verb, object=RelativePronoun(subjects[context].noun), time=when)
        clause = Clause(subject=replace(subjects[context], relative=found), verb=V.be, form=form, predicate=quality)
        return sentence(clause, roles=found)

    return realise


def _know(rng: RandomChoices) -> Schema:
    one, other = rng.choose_two(HE_OR_SHE)
    subject, known = noun_phrase(rng, one), noun_phrase(rng, other)
    fact = Clause(subject=known, verb=V.be, predicate=predicate(rng, FEELINGS))
    negated = rng.bernoulli(0.3)

    def realise(context: int, reading: int) -> AnnotatedPair:
        object_, complement = (None, fact) if context else (known, None)
        verb = (V.know, V.know_that)[reading]
        return sentence(Clause(subject=subject, verb=verb, negated=negated, object=object_, complement=complement))

    return realise


def _leave(rng: RandomChoices) -> Schema:
    subject, place = noun_phrase(rng, rng.choose(lex.PERSONS)), noun_phrase(rng, rng.choose(PLACES))
    thing, when = noun_phrase(rng, rng.choose(lex.THINGS)), optional_time(rng, 0.5)

    def realise(context: int, reading: int) -> AnnotatedPair:
        object_, goal = (thing, prepositional(lex.IN, place)) if context else (place, None)
        verb = (V.leave, V.leave_behind)[reading]
        return sentence(Clause(subject=subject, verb=verb, object=object_, goal=goal, time=when))

    return realise


# Semantic roles: the same words in another order

PASSIVE_VERBS = (V.see, V.hear, V.find, V.chase, V.bite, V.catch)
REVERSIBLE_VERBS = (*PASSIVE_VERBS, V.follow, V.help)


def role_reversal(rng: RandomChoices) -> Schema:
    """Draw: The man bit the dog / the dog bit the man. The first noun is the agent in half of the schemas."""
    agent_first: tuple[Rule, ...] = (_active, _eating, _giving, partial(_relative, subject_role="agent"))
    patient_first: tuple[Rule, ...] = (_passive, partial(_relative, subject_role="patient"))
    return rng.choose(rng.choose((agent_first, patient_first)))(rng)


def _two_beings(rng: RandomChoices) -> list[NounPhrase]:
    return [noun_phrase(rng, noun) for noun in rng.choose_two(lex.BEINGS)]


def _active(rng: RandomChoices) -> Schema:
    verb, beings = rng.choose(REVERSIBLE_VERBS), _two_beings(rng)
    when, where = optional_time(rng), optional_place(rng)

    def realise(agent: NounPhrase, patient: NounPhrase) -> AnnotatedPair:
        return sentence(Clause(subject=agent, verb=verb, object=patient, time=when, place=where))

    return _swap(beings, realise)


def _eating(rng: RandomChoices) -> Schema:
    beings = rng.choose(lex.PERSONS), rng.choose((N.fish, N.bear, N.pig, N.goat))
    when, where = optional_time(rng), optional_place(rng)

    def realise(context: int) -> AnnotatedPair:
        agent, patient = NounPhrase(beings[context]), NounPhrase(beings[1 - context], determiner="a")
        verb = (V.eat, V.devour)[context]
        return sentence(Clause(subject=agent, verb=verb, object=patient, time=when, place=where))

    return _contrast_contexts(realise)


def _giving(rng: RandomChoices) -> Schema:
    verb = rng.choose((V.give, V.show))
    persons = [noun_phrase(rng, noun) for noun in rng.choose_two(lex.PERSONS)]
    gift, when = noun_phrase(rng, rng.choose(lex.THINGS), indefinite=0.35), optional_time(rng)

    def realise(agent: NounPhrase, recipient: NounPhrase) -> AnnotatedPair:
        return sentence(Clause(subject=agent, verb=verb, recipient=recipient, object=gift, time=when))

    return _swap(persons, realise)


def _passive(rng: RandomChoices) -> Schema:
    verb, beings, when = rng.choose(PASSIVE_VERBS), _two_beings(rng), optional_time(rng)

    def realise(agent: NounPhrase, patient: NounPhrase) -> AnnotatedPair:
        clause = Clause(subject=patient, verb=verb, form="passive", goal=prepositional(lex.BY, agent), time=when)
        roles = {"agent": agent.head, "patient": patient.head, "verb": (clause, "verb")}
        return replace(sentence(clause), roles=roles)

    return _swap(beings, realise)


def _relative(rng: RandomChoices, *, subject_role: str) -> Schema:
    """Draw: The dog that bit the man was tired. With the role "patient": The dog that the man bit was tired."""
    verb, beings = rng.choose(REVERSIBLE_VERBS), _two_beings(rng)
    where, quality = optional_place(rng), predicate(rng, FEELINGS, DEGREES)

    def realise(head: NounPhrase, other: NounPhrase) -> AnnotatedPair:
        that = RelativePronoun(head.noun)
        agent, patient = (that, other) if subject_role == "agent" else (other, that)
        inner = Clause(subject=agent, verb=verb, object=patient, place=where)
        subject = replace(head, relative=inner)
        roles = {"agent": other.head, "patient": other.head, "verb": (inner, "verb"), subject_role: subject.head}
        return replace(sentence(Clause(subject=subject, verb=V.be, predicate=quality)), roles=roles)

    return _swap(beings, realise)


# Reference across sentences

PETS = (N.dog, N.cat, N.horse, N.pig, N.goat)
WALK_PLACES = (N.park, N.garden, N.city, N.forest, N.village)
BUILDINGS = (N.house, N.church, N.barn, N.tower)


def distant_reference(rng: RandomChoices) -> Schema:
    """Draw: Sarah was walking in the park with her cat, Alex. She was wearing a beautiful gold watch."""
    return _walk_with_pet(rng) if rng.bernoulli(0.6) else _part_and_whole(rng)


def _walk_with_pet(rng: RandomChoices) -> Schema:
    walker = NounPhrase(rng.choose(lex.nouns("names")), determiner=None)
    her = Possessive("her", "f") if walker.noun.sex == "f" else Possessive("his", "m")
    pet = NounPhrase(rng.choose(PETS), determiner=her, name=rng.choose(lex.nouns("pet_names")))
    park = noun_phrase(rng, rng.choose(WALK_PLACES))
    first = Clause(subject=walker, verb=V.walk, goal=prepositional(lex.IN, park), place=prepositional(lex.WITH, pet))
    degree = rng.choose(OPTIONAL_VERY)
    if rng.bernoulli(0.35):
        she, worn = Pronoun.of(walker.noun), rng.choose((N.watch, N.hat))
        adjectives = rng.choose(((A.beautiful, A.gold), (A.new, A.gold), (A.old, A.red), (A.beautiful, A.red)))
        second = Clause(subject=she, verb=V.wear, object=NounPhrase(worn, determiner="a", adjectives=adjectives))
        return _unambiguous(sentence(second, first=first, antecedent=antecedents(she.head, (walker, pet), 0)))
    qualities = rng.choose((A.hungry, A.tired, A.lazy, A.frightened)), rng.choose((A.green, A.crowded))
    candidates = pet, park

    def realise(context: int, reading: int) -> AnnotatedPair:
        it = Pronoun("it", candidates[reading].noun.gender)
        second = Clause(subject=it, verb=V.be, predicate=PredicateAdjective(qualities[context], degree))
        return sentence(second, first=first, roles=first, antecedent=antecedents(it.head, candidates, context))

    return realise


def _part_and_whole(rng: RandomChoices) -> Schema:
    owners = noun_phrase(rng, rng.choose(lex.ANIMALS)), noun_phrase(rng, rng.choose(BUILDINGS))
    place = prepositional(rng.choose((lex.BEHIND, lex.BESIDE, lex.IN)), owners[1])
    first = Clause(subject=owners[0], verb=V.sleep, place=place, time=optional_time(rng, 0.3))
    parts = rng.choose((N.tail, N.head, N.nose)), rng.choose((N.door, N.door, N.roof, N.window))
    quality = predicate(rng, (A.big, A.small, A.beautiful))

    def realise(context: int, reading: int) -> AnnotatedPair:
        its_part = NounPhrase(parts[context], determiner=Possessive("its", owners[reading].noun.gender))
        second = Clause(subject=its_part, verb=V.be, predicate=quality)
        pronoun = its_part, "determiner"
        return sentence(second, first=first, roles=first, antecedent=antecedents(pronoun, owners, context))

    return realise


# Subject-verb agreement across an intervening noun

LOCATIONS: tuple[tuple[Preposition, tuple[Noun, ...]], ...] = (
    (lex.ON, (N.table, N.chair, N.box)),
    (lex.UNDER, (N.table, N.chair, N.car)),
    (lex.IN, (N.bag, N.cabinet, N.car, N.box)),
    (lex.BEHIND, (N.house, N.car)),
)


def agreement(rng: RandomChoices) -> Schema:
    """Draw: The keys to the cabinet are old."""
    places: tuple[Noun, ...]
    noun = rng.choose((N.key, N.cup, N.flower, N.book, N.picture))
    if noun is N.key and rng.bernoulli(0.7):
        preposition, places = lex.TO, (N.cabinet, N.house, N.box, N.car)
    else:
        preposition, places = rng.choose(LOCATIONS)
    inner, outer = noun_phrase(rng, rng.choose(places)), noun_phrase(rng, noun)
    qualities = [adjective for adjective in (A.beautiful, A.red) if adjective not in outer.adjectives]
    quality = predicate(rng, qualities if outer.adjectives else adjectives_for(noun))
    same_number = rng.bernoulli(0.3)
    form: Form = rng.choose(("present", "past"))
    finder = noun_phrase(rng, rng.choose(lex.PERSONS)) if rng.bernoulli(0.3) else None
    verb = rng.choose((V.see, V.buy, V.find))
    negated = rng.bernoulli(0.2)

    def realise(context: int, reading: int) -> AnnotatedPair:
        near = replace(inner, plural=bool(context) != same_number)
        head = replace(outer, plural=not context, attribute=prepositional(preposition, near))
        if finder:
            seen = Clause(subject=finder, verb=verb, object=RelativePronoun(noun, plural=not context))
            head = replace(head, relative=seen)
        clause = Clause(
            subject=head,
            verb=V.be,
            form=form,
            predicate=quality,
            negated=negated,
            agrees_with=head if context == reading else near,
        )
        return sentence(clause)

    return realise


# Negation: the position of nicht, and kein before indefinite nouns

MAIN_FORMS: tuple[Form, ...] = ("past", "past", "perfect", "perfect", *lex.MODALS)
JOINED_FORMS: tuple[Form, ...] = ("past", "past", "past", *lex.MODALS)
COORDINATING = lex.AND, lex.BUT
SUBORDINATING = lex.BECAUSE, lex.WHEN, lex.WHILE, lex.ALTHOUGH


def negation(rng: RandomChoices) -> Schema:
    """Draw: The man didn't buy a book. Der Mann kaufte kein Buch."""
    clause = activity_clause(rng, set(), forms=MAIN_FORMS)
    reason = reason_clause(rng, clause) if rng.bernoulli(0.25) else Pair()

    def realise(context: int) -> AnnotatedPair:
        realised = replace(clause, negated=not context)
        return sentence(main_clause(realised) + reason, roles=realised)

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
        return _unambiguous(sentence(clause))
    if kind == "that":
        knower = rng.choose(lex.PERSONS)
        fact = activity_clause(rng, {knower}, forms=("past", *lex.MODALS))
        verb = rng.choose((V.know_that, V.hear, V.see))
        clause = Clause(subject=noun_phrase(rng, knower), verb=verb, complement=fact)
        return _unambiguous(sentence(clause, roles=fact))
    conjunction = rng.choose(SUBORDINATING)
    mentioned: set[Noun] = set()
    clause = activity_clause(rng, mentioned, forms=JOINED_FORMS, extras=0.1)
    joined = _conjoined_clause(rng, mentioned, conjunction)
    if kind == "opened":
        return _unambiguous(sentence(leading_clause(conjunction, joined, clause), roles=clause))
    return _unambiguous(sentence(main_clause(clause) + following_clause(conjunction, joined), roles=clause))


# Length: chains of clauses


def clause_chain(rng: RandomChoices, *, at_least: int = 13) -> Schema:
    """Draw: The man opened the door because the dog was hungry, and the woman laughed when …

    Args:
        at_least: smallest number of English words before the full stop.
    """
    mentioned: set[Noun] = set()
    first = activity_clause(rng, mentioned, forms=JOINED_FORMS, extras=0.1)
    pair, last = main_clause(first), first
    subordinated = False
    while len(pair.en) < at_least:
        if not subordinated and rng.bernoulli(0.3) and (reason := reason_clause(rng, last)).en:
            pair, subordinated = pair + reason, True
            continue
        conjunction = rng.choose(COORDINATING if subordinated else COORDINATING + SUBORDINATING)
        last = _conjoined_clause(rng, mentioned, conjunction)
        pair, subordinated = pair + following_clause(conjunction, last), conjunction.subordinating
    return _unambiguous(sentence(pair, roles=first))


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

TAG_PERCENTAGES = dict(zip(RULES, (16, 15, 22, 10, 8, 10, 13, 6), strict=True))
"""How often each tag is drawn, in percent."""

CONTRASTIVE_TAGS = ("pronoun", "sense", "roles", "far", "agreement", "negation")
"""Tags whose schemas have two readings and so give contrastive pairs."""
