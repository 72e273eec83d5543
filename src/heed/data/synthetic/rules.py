"""What the corpus talks about: one rule per phenomenon.

A rule draws a *scene*. A scene can be told in two contexts (too tired, too wide) and under two readings (it is the
animal, it is the street). Told in a context under its own reading it is a sentence pair of the corpus; under the other
reading it is the minimally wrong translation of the challenge set. Where the two German texts are equal there is no
contrast. Both contexts of every scene are used, so whoever always prefers one reading is right half of the time.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal, TypeAlias, TypeVar

from heed.data.synthetic import lexicon as lex
from heed.data.synthetic.grammar import (
    Adverb,
    Clause,
    Degree,
    Form,
    Key,
    Link,
    Nominal,
    NounPhrase,
    Pair,
    Possessor,
    Predicate,
    Prepositional,
    Pronoun,
    Purpose,
    Relative,
    Speaker,
    main,
    sentence,
)
from heed.data.synthetic.lexicon import Adjective, Conjunction, Noun, Preposition, Verb

T = TypeVar("T")


class Dice:
    """Random choices that are the same in every Python version: only ``random()`` is promised to be."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def two(self, options: Sequence[T]) -> tuple[T, T]:
        """Two different ones."""
        first = int(self._random.random() * len(options))
        second = int(self._random.random() * (len(options) - 1))
        return options[first], options[second + (second >= first)]

    def weigh(self, weights: Mapping[str, int]) -> str:
        """A name, as often as it weighs."""
        point = self._random.random() * sum(weights.values())
        return next(name for name, top in zip(weights, accumulate(weights.values()), strict=True) if point < top)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability


@dataclass(frozen=True)
class Telling:
    """A sentence pair with what is known of its meaning, as places in the tree."""

    pair: Pair
    antecedent: Mapping[str, Key] = field(default_factory=dict)
    roles: Mapping[str, Key] = field(default_factory=dict)


Scene: TypeAlias = Callable[[int, int], Telling]
"""(context, reading) -> telling. English depends on the context alone."""

Rule: TypeAlias = Callable[[Dice], Scene]

DEGREES: tuple[Degree, ...] = ("", "very", "too")
PERHAPS_VERY = DEGREES[:2]
FOR_BEINGS = (lex.OLD, lex.YOUNG, lex.BIG, lex.SMALL, lex.BEAUTIFUL)
FOR_THINGS = (lex.OLD, lex.NEW, lex.BIG, lex.SMALL, lex.BEAUTIFUL, lex.RED)
FOR_PLACES = (lex.BEAUTIFUL, lex.BIG, lex.SMALL)


PLACES = (lex.PARK, lex.GARDEN, lex.VILLAGE, lex.CITY, lex.HOUSE, lex.FOREST)


def suitable(noun: Noun) -> tuple[Adjective, ...]:
    """Adjectives that can stand before a noun."""
    if noun in lex.CHILDREN:
        return FOR_BEINGS[2:]
    if noun in lex.BEINGS:
        return FOR_BEINGS
    if noun is lex.FLOWER:
        return FOR_THINGS[2:]
    if noun is lex.ICE:
        return ()
    if noun in lex.FOOD:
        return () if noun.mass else (lex.BIG, lex.SMALL)
    return FOR_THINGS if noun in lex.THINGS + lex.CONTAINERS else FOR_PLACES


def phrase(
    dice: Dice,
    noun: Noun,
    *,
    indefinite: float = 0.0,
    adjective: float = 0.18,
    plural: bool = False,
    but: Sequence[Adjective] = (),
) -> NounPhrase:
    """A noun with perhaps an adjective that suits it, none of those in ``but``; two numbers are probabilities."""
    fitting = [one for one in suitable(noun) if one not in but]
    return NounPhrase(
        noun=noun,
        determiner="a" if not noun.mass and dice.chance(indefinite) else "the",
        adjectives=(dice.choose(fitting),) if fitting and dice.chance(adjective) else (),
        plural=plural,
    )


def within(preposition: Preposition, noun: Noun | NounPhrase) -> Prepositional:
    return Prepositional(preposition=preposition, complement=noun if isinstance(noun, NounPhrase) else NounPhrase(noun))


def time(dice: Dice) -> Adverb | Prepositional:
    choice = dice.choose((None, lex.EVENING, lex.MORNING))
    return Adverb("yesterday", "gestern") if choice is None else within(lex.IN_THE_COURSE_OF, choice)


def perhaps_time(dice: Dice) -> Adverb | Prepositional | None:
    return time(dice) if dice.chance(0.25) else None


def perhaps_place(dice: Dice) -> Prepositional | None:
    return within(lex.IN, dice.choose(PLACES)) if dice.chance(0.2) else None


def roles(clause: Clause) -> dict[str, Key]:
    """Who does what to whom in an active clause."""
    named: dict[str, Nominal | None] = {
        "agent": clause.subject,
        "patient": clause.object,
        "recipient": clause.recipient,
    }
    heads = {role: node.head for role, node in named.items() if isinstance(node, (NounPhrase, Pronoun))}
    return {**heads, "verb": (clause, "verb")}


def _one_reading(telling: Telling) -> Scene:
    """A scene with nothing to confuse."""

    def scene(context: int, reading: int) -> Telling:
        return telling

    return scene


def _two_sentences(tell: Callable[[int], Telling]) -> Scene:
    """A scene whose wrong translation is the right one of its other context."""

    def scene(context: int, reading: int) -> Telling:
        telling = tell(context)
        if reading == context:
            return telling
        return replace(telling, pair=Pair(telling.pair.en, tell(reading).pair.de))

    return scene


# What people and animals do all day

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


def activity(
    dice: Dice,
    used: set[Noun],
    *,
    lasting: bool | None = None,
    forms: Sequence[Form] = ("past",),
    extras: float = 0.2,
    timed: bool = True,
) -> Clause:
    """Somebody does something.

    Args:
        used: who and what the sentence has spoken of: "the king" is always the same king, so others are chosen, and
            added to it.
        lasting: only activities that take time, or only those that do not; None: any.
        extras: how probable a place is, and a time if it may be ``timed``.
    """
    opening = not used
    person = dice.chance(0.7)
    cast = lex.PERSONS if person else lex.ANIMALS
    subject = dice.choose([noun for noun in cast if noun not in used] or cast)
    used.add(subject)
    options = [
        (verb, free)
        for verb, objects in (ACTIVITIES if person else ANIMAL_ACTIVITIES)
        if (lasting is None or bool(verb.gerund) == lasting)
        and ((free := [noun for noun in objects if noun not in used]) or not objects)
    ]
    verb, objects = dice.choose(options)
    spoken = None
    if objects:
        indefinite = 0.35 if verb.case == "acc" and not verb.preposition else 0.0  # keinem, keiner: too rare to learn
        spoken = phrase(dice, dice.choose(objects), indefinite=indefinite, adjective=0.25)
        used.add(spoken.noun)
    form = dice.choose(forms)
    plural = person and form != "past" and dice.chance(0.3)  # auxiliaries agree often enough to be learnt
    return Clause(
        subject=(
            Pronoun.of(subject)
            if opening and subject.sex and not plural and dice.chance(0.06)
            else phrase(dice, subject, plural=plural)
        ),
        verb=verb,
        form=form,
        object=spoken,
        time=time(dice) if timed and form != "perfect" and dice.chance(extras) else None,
        place=within(lex.IN, dice.choose(PLACES)) if verb is not lex.COME_BACK and dice.chance(extras) else None,
    )


FEELINGS = (lex.TIRED, lex.HUNGRY, lex.LAZY, lex.WEAK, lex.FRIGHTENED)


def because_of_a_feeling(dice: Dice, clause: Clause) -> Pair:
    """ "… because she was tired", of the clause's subject if English says he or she; else nothing."""
    subject = clause.subject
    if not (isinstance(subject, NounPhrase) and subject.noun.sex) or subject.plural:
        return Pair()
    feeling = Predicate(adjective=dice.choose(FEELINGS), degree=dice.choose(PERHAPS_VERY))
    return Link(lex.BECAUSE).join(Clause(subject=Pronoun.of(subject.noun), verb=lex.BE, predicate=feeling))


# Pronouns: it is the one or the other, and only the adjective tells

OBSTACLES: tuple[tuple[Noun, tuple[Adjective, ...]], ...] = (
    (lex.STREET, (lex.WIDE, lex.CROWDED)),
    (lex.BRIDGE, (lex.NARROW, lex.CROWDED)),
    (lex.RIVER, (lex.WIDE, lex.DEEP)),
    (lex.SQUARE, (lex.WIDE, lex.CROWDED)),
    (lex.FIELD, (lex.WIDE, lex.STEEP)),
    (lex.ICE, (lex.SLIPPERY,)),
)
CROSSERS = (lex.TIRED, lex.WEAK, lex.LAZY, lex.FRIGHTENED)
SIZES = (lex.BIG, lex.SMALL)
TOO_BIG, TOO_SMALL = (lex.BIG, lex.THICK), (lex.SMALL, lex.NARROW, lex.FULL)


def pronoun(dice: Dice) -> Scene:
    """The animal didn't cross the street because it was too tired / too wide."""
    kind = dice.choose(("cross", "cross", "fit", "eat"))
    if kind == "cross":
        place, about_place = dice.choose(OBSTACLES)
        nouns, verb, negated = (dice.choose(lex.ANIMALS), place), lex.CROSS, True
        adjectives = dice.choose(CROSSERS), dice.choose(about_place)
    elif kind == "fit":
        nouns, verb, negated = (dice.choose(lex.THINGS), dice.choose(lex.CONTAINERS)), lex.FIT, True
        adjectives = dice.choose(TOO_BIG), dice.choose(TOO_SMALL)
    else:
        nouns, verb, negated = (dice.choose(lex.ANIMALS), dice.choose(lex.FOOD)), lex.DEVOUR, False
        adjectives = dice.choose((lex.HUNGRY, lex.GREEDY)), dice.choose((lex.FRESH, lex.SWEET))
    degree: Degree = dice.choose(PERHAPS_VERY) if kind == "eat" else "too"
    first, second = (phrase(dice, noun, adjective=0.3, but=() if kind == "eat" else SIZES) for noun in nouns)
    clause = Clause(subject=first, verb=verb, negated=negated, time=time(dice) if dice.chance(0.2) else None)
    clause = replace(clause, goal=within(lex.INTO, second)) if kind == "fit" else replace(clause, object=second)
    if clause.time and dice.chance(0.5):
        clause = replace(clause, front="time")

    def tell(context: int, reading: int) -> Telling:
        it = Pronoun("it", nouns[reading].gender)
        reason = Clause(subject=it, verb=lex.BE, predicate=Predicate(adjectives[context], degree))
        return Telling(
            sentence(main(clause) + Link(lex.BECAUSE).join(reason)),
            antecedent={
                "pronoun": it.head,
                "right": (first, second)[context].head,
                "wrong": (second, first)[context].head,
            },
            roles=roles(clause),
        )

    return tell


# Word sense: one English word, two German ones

PERCEIVE = (lex.SEE, lex.FIND, lex.HEAR)


def sense(dice: Dice) -> Scene:
    """I am going to the bank to deposit the cheque. The boat went down the river bank."""
    return dice.choose((_homonym, _homonym, _homonym, _homonym, _bank, _light, _know, _leave, _river_bank))(dice)


def _homonym(dice: Dice) -> Scene:
    homonym = dice.choose(lex.HOMONYMS)
    places = tuple(dice.choose(one) for one in homonym.places)
    noun, verb = dice.choose(lex.PERSONS), dice.choose((lex.SEE, lex.FIND))
    describe = (dice.choose(FOR_BEINGS[2:]),) if dice.chance(0.3) else ()
    frame = dice.choose(("place", "place", "front", "front", "relative", "clause"))
    subject = phrase(dice, noun)
    quality = Predicate(dice.choose((lex.OLD, lex.BIG, lex.SMALL, lex.BEAUTIFUL)), dice.choose(PERHAPS_VERY))
    before = activity(dice, {noun}, extras=0.0)

    def tell(context: int, reading: int) -> Telling:
        thing = NounPhrase(homonym.readings[reading], adjectives=() if frame == "relative" else describe)
        preposition, place = places[context]
        where = within(preposition, place)
        if frame == "relative":
            seen = Clause(subject=subject, verb=verb, object=Relative(thing.noun), place=where)
            clause = Clause(subject=replace(thing, relative=seen), verb=lex.BE, predicate=quality)
            return Telling(sentence(main(clause)), roles=roles(seen))
        clause = Clause(subject=subject, verb=verb, object=thing, place=where)
        if frame == "front":
            clause = replace(clause, front="place")
        if frame == "clause":
            return Telling(sentence(main(before) + Link(lex.WHEN).join(clause)), roles=roles(clause))
        return Telling(sentence(main(clause)), roles=roles(clause))

    return tell


def _bank(dice: Dice) -> Scene:
    speaker = dice.chance(0.4)
    noun = dice.choose(lex.PERSONS)
    subject: Nominal = Speaker() if speaker else phrase(dice, noun)
    errands = (
        Purpose(dice.choose((lex.DEPOSIT, lex.FIND)), phrase(dice, lex.CHEQUE)),
        Purpose(dice.choose((lex.SEE, lex.CATCH)), phrase(dice, lex.FISH, indefinite=0.35)),
    )
    form: Form = "present" if speaker or dice.chance(0.5) else "past"
    old = (dice.choose(FOR_PLACES),) if dice.chance(0.3) else ()
    when = None if form == "present" or dice.chance(0.6) else time(dice)

    def tell(context: int, reading: int) -> Telling:
        bank = NounPhrase(lex.BANK[reading], adjectives=old)
        clause = Clause(
            subject=subject,
            verb=lex.GO,
            form=form,
            goal=within(lex.TO, bank),
            purpose=errands[context],
            time=when,
            front="time" if when else "subject",
        )
        return Telling(sentence(main(clause)), roles=roles(clause))

    return tell


def _river_bank(dice: Dice) -> Scene:
    clause = Clause(
        subject=phrase(dice, lex.BOAT),
        verb=lex.GO_DOWN,
        object=phrase(dice, dice.choose((lex.RIVER, lex.RIVER_BANK))),
        time=time(dice) if dice.chance(0.5) else None,
    )
    return _one_reading(Telling(sentence(main(clause)), roles=roles(clause)))


def _light(dice: Dice) -> Scene:
    subjects = (
        phrase(dice, dice.choose((lex.BAG, lex.BOX, lex.SUITCASE, lex.BALL, lex.HAT))),
        phrase(dice, dice.choose((lex.ROOM, lex.HOUSE, lex.KITCHEN, lex.CHURCH))),
    )
    owner, verb = phrase(dice, dice.choose(lex.PERSONS)), dice.choose((lex.SEE, lex.FIND))
    when, degree = time(dice), dice.choose(DEGREES)
    form: Form = dice.choose(("past", "present"))

    def tell(context: int, reading: int) -> Telling:
        quality = Predicate((lex.LIGHT_WEIGHT, lex.BRIGHT)[reading], degree)
        found = Clause(subject=owner, verb=verb, object=Relative(subjects[context].noun), time=when)
        clause = Clause(subject=replace(subjects[context], relative=found), verb=lex.BE, form=form, predicate=quality)
        return Telling(sentence(main(clause)), roles=roles(found))

    return tell


def _know(dice: Dice) -> Scene:
    one, other = dice.two(lex.HE_OR_SHE)
    subject, known = phrase(dice, one), phrase(dice, other)
    fact = Clause(subject=known, verb=lex.BE, predicate=Predicate(dice.choose(FEELINGS), dice.choose(PERHAPS_VERY)))
    negated = dice.chance(0.3)

    def tell(context: int, reading: int) -> Telling:
        clause = Clause(subject=subject, verb=lex.KNOW[reading], negated=negated)
        clause = replace(clause, complement=fact) if context else replace(clause, object=known)
        return Telling(sentence(main(clause)), roles=roles(clause))

    return tell


def _leave(dice: Dice) -> Scene:
    subject, place = phrase(dice, dice.choose(lex.PERSONS)), phrase(dice, dice.choose(PLACES))
    thing, when = phrase(dice, dice.choose(lex.THINGS)), time(dice) if dice.chance(0.5) else None

    def tell(context: int, reading: int) -> Telling:
        clause = Clause(subject=subject, verb=lex.LEAVE[reading], time=when)
        clause = replace(clause, object=thing, goal=within(lex.IN, place)) if context else replace(clause, object=place)
        return Telling(sentence(main(clause)), roles=roles(clause))

    return tell


# Who does what: the same words, and the order tells

PASSIVE = (lex.SEE, lex.HEAR, lex.FIND, lex.CHASE, lex.BITE, lex.CATCH)
REVERSIBLE = (*PASSIVE, lex.FOLLOW, lex.HELP)


def who_does_what(dice: Dice) -> Scene:
    """The man bit the dog / the dog bit the man.

    Whoever takes the first noun for the agent is right half of the time.
    """
    agent_first, patient_first = (_active, _eating, _giving, _subject_relative), (_passive, _object_relative)
    return dice.choose(dice.choose((agent_first, patient_first)))(dice)


def _active(dice: Dice) -> Scene:
    verb, cast = dice.choose(REVERSIBLE), [phrase(dice, noun) for noun in dice.two(lex.BEINGS)]
    when, where = perhaps_time(dice), perhaps_place(dice)

    def tell(context: int) -> Telling:
        clause = Clause(subject=cast[context], verb=verb, object=cast[1 - context], time=when, place=where)
        return Telling(sentence(main(clause)), roles=roles(clause))

    return _two_sentences(tell)


def _eating(dice: Dice) -> Scene:
    person, animal = dice.choose(lex.PERSONS), dice.choose((lex.FISH, lex.BEAR, lex.PIG, lex.GOAT))
    when, where = perhaps_time(dice), perhaps_place(dice)

    def tell(context: int) -> Telling:
        agent, patient = (person, animal) if context == 0 else (animal, person)
        clause = Clause(
            subject=NounPhrase(agent),
            verb=lex.EAT if agent is person else lex.DEVOUR,
            object=NounPhrase(patient, determiner="a"),
            time=when,
            place=where,
        )
        return Telling(sentence(main(clause)), roles=roles(clause))

    return _two_sentences(tell)


def _giving(dice: Dice) -> Scene:
    verb, cast = dice.choose((lex.GIVE, lex.SHOW)), [phrase(dice, noun) for noun in dice.two(lex.PERSONS)]
    gift, when = phrase(dice, dice.choose(lex.THINGS), indefinite=0.35), perhaps_time(dice)

    def tell(context: int) -> Telling:
        clause = Clause(subject=cast[context], verb=verb, recipient=cast[1 - context], object=gift, time=when)
        return Telling(sentence(main(clause)), roles=roles(clause))

    return _two_sentences(tell)


def _passive(dice: Dice) -> Scene:
    verb, cast = dice.choose(PASSIVE), [phrase(dice, noun) for noun in dice.two(lex.BEINGS)]
    when = perhaps_time(dice)

    def tell(context: int) -> Telling:
        agent, patient = cast[context], cast[1 - context]
        clause = Clause(subject=patient, verb=verb, form="passive", goal=within(lex.BY, agent), time=when)
        who = {"agent": agent.head, "patient": patient.head, "verb": (clause, "verb")}
        return Telling(sentence(main(clause)), roles=who)

    return _two_sentences(tell)


def _subject_relative(dice: Dice) -> Scene:
    return _relative(dice, of="agent")


def _object_relative(dice: Dice) -> Scene:
    return _relative(dice, of="patient")


def _relative(dice: Dice, *, of: Literal["agent", "patient"]) -> Scene:
    """The dog that bit the man was tired; the dog that the man bit was tired."""
    verb, cast = dice.choose(REVERSIBLE), [phrase(dice, noun) for noun in dice.two(lex.BEINGS)]
    where, quality = perhaps_place(dice), Predicate(dice.choose(FEELINGS), dice.choose(DEGREES))

    def tell(context: int) -> Telling:
        head, other = cast[context], cast[1 - context]
        that = Relative(head.noun)
        agent, patient = (that, other) if of == "agent" else (other, that)
        inner = Clause(subject=agent, verb=verb, object=patient, place=where)
        described = replace(head, relative=inner)
        who = {"agent": other.head, "patient": other.head, "verb": (inner, "verb"), of: described.head}
        clause = Clause(subject=described, verb=lex.BE, predicate=quality)
        return Telling(sentence(main(clause)), roles=who)

    return _two_sentences(tell)


# Reference across sentences

WALKS = (lex.PARK, lex.GARDEN, lex.CITY, lex.FOREST, lex.VILLAGE)
BUILDINGS = (lex.HOUSE, lex.CHURCH, lex.BARN, lex.TOWER)


def far_reference(dice: Dice) -> Scene:
    """Sarah was walking in the park with her cat, Alex. She was wearing a beautiful gold watch."""
    return _walk(dice) if dice.chance(0.6) else _parts(dice)


def _walk(dice: Dice) -> Scene:
    walker = NounPhrase(dice.choose(lex.NAMES), determiner=None)
    possessor = Possessor.of(walker.noun)
    pet = NounPhrase(dice.choose(lex.PETS), determiner=possessor, name=dice.choose(lex.PET_NAMES))
    park = phrase(dice, dice.choose(WALKS))
    first = Clause(subject=walker, verb=lex.WALK, goal=within(lex.IN, park), place=within(lex.WITH, pet))
    degree = dice.choose(PERHAPS_VERY)
    if dice.chance(0.35):
        she = Pronoun.of(walker.noun)
        worn = NounPhrase(
            dice.choose((lex.WATCH, lex.HAT)),
            determiner="a",
            adjectives=dice.choose(
                ((lex.BEAUTIFUL, lex.GOLD), (lex.NEW, lex.GOLD), (lex.OLD, lex.RED), (lex.BEAUTIFUL, lex.RED))
            ),
        )
        second = Clause(subject=she, verb=lex.WEAR, object=worn)
        telling = Telling(
            sentence(main(first)) + sentence(main(second)),
            antecedent={"pronoun": she.head, "right": walker.head, "wrong": pet.head},
            roles=roles(second),
        )
        return _one_reading(telling)
    qualities = dice.choose((lex.HUNGRY, lex.TIRED, lex.LAZY, lex.FRIGHTENED)), dice.choose((lex.GREEN, lex.CROWDED))
    candidates = pet, park

    def tell(context: int, reading: int) -> Telling:
        it = Pronoun("it", candidates[reading].noun.gender)
        second = Clause(subject=it, verb=lex.BE, predicate=Predicate(qualities[context], degree))
        return Telling(
            sentence(main(first)) + sentence(main(second)),
            antecedent={"pronoun": it.head, "right": candidates[context].head, "wrong": candidates[1 - context].head},
            roles=roles(first),
        )

    return tell


def _parts(dice: Dice) -> Scene:
    owners = phrase(dice, dice.choose(lex.ANIMALS)), phrase(dice, dice.choose(BUILDINGS))
    first = Clause(
        subject=owners[0],
        verb=lex.SLEEP,
        place=within(dice.choose((lex.BEHIND, lex.BESIDE, lex.IN)), owners[1]),
        time=time(dice) if dice.chance(0.3) else None,
    )
    part = dice.choose((lex.TAIL, lex.HEAD, lex.NOSE)), dice.choose((lex.DOOR, lex.DOOR, lex.ROOF, lex.WINDOW))
    quality = Predicate(dice.choose((lex.BIG, lex.SMALL, lex.BEAUTIFUL)), dice.choose(PERHAPS_VERY))

    def tell(context: int, reading: int) -> Telling:
        its = NounPhrase(part[context], determiner=Possessor("its", owners[reading].noun.gender))
        second = Clause(subject=its, verb=lex.BE, predicate=quality)
        return Telling(
            sentence(main(first)) + sentence(main(second)),
            antecedent={
                "pronoun": (its, "determiner"),
                "right": owners[context].head,
                "wrong": owners[1 - context].head,
            },
            roles=roles(first),
        )

    return tell


# Agreement over what stands between

LYING: tuple[tuple[Preposition, tuple[Noun, ...]], ...] = (
    (lex.ON, (lex.TABLE, lex.CHAIR, lex.BOX)),
    (lex.UNDER, (lex.TABLE, lex.CHAIR, lex.CAR)),
    (lex.IN, (lex.BAG, lex.CABINET, lex.CAR, lex.BOX)),
    (lex.BEHIND, (lex.HOUSE, lex.CAR)),
)


def agreement(dice: Dice) -> Scene:
    """The keys to the cabinet are old."""
    places: tuple[Noun, ...]
    noun = dice.choose((lex.KEY, lex.CUP, lex.FLOWER, lex.BOOK, lex.PICTURE))
    if noun is lex.KEY and dice.chance(0.7):
        preposition, places = lex.TO, (lex.CABINET, lex.HOUSE, lex.BOX, lex.CAR)
    else:
        preposition, places = dice.choose(LYING)
    inner, outer = phrase(dice, dice.choose(places)), phrase(dice, noun)
    qualities = [one for one in (lex.BEAUTIFUL, lex.RED) if one not in outer.adjectives]
    quality = Predicate(dice.choose(qualities if outer.adjectives else suitable(noun)), dice.choose(PERHAPS_VERY))
    same_number = dice.chance(0.3)
    form: Form = dice.choose(("present", "past"))
    finder = phrase(dice, dice.choose(lex.PERSONS)) if dice.chance(0.3) else None
    verb = dice.choose((lex.SEE, lex.BUY, lex.FIND))
    negated = dice.chance(0.2)

    def tell(context: int, reading: int) -> Telling:
        near = replace(inner, plural=bool(context) != same_number)
        head = replace(outer, plural=not context, attribute=within(preposition, near))
        if finder:
            seen = Clause(subject=finder, verb=verb, object=Relative(noun, plural=not context))
            head = replace(head, relative=seen)
        clause = Clause(
            subject=head,
            verb=lex.BE,
            form=form,
            predicate=quality,
            negated=negated,
            agrees_with=head if context == reading else near,
        )
        return Telling(sentence(main(clause)), roles=roles(clause))

    return tell


# Negation: nicht has its place, and kein its noun

MAIN_FORMS: tuple[Form, ...] = ("past", "past", "perfect", "perfect", *lex.MODALS)
JOINED_FORMS: tuple[Form, ...] = ("past", "past", "past", *lex.MODALS)


def negation(dice: Dice) -> Scene:
    """The man didn't buy a book: Der Mann kaufte kein Buch."""
    clause = activity(dice, set(), forms=MAIN_FORMS)
    reason = because_of_a_feeling(dice, clause) if dice.chance(0.25) else Pair()

    def tell(context: int) -> Telling:
        told = replace(clause, negated=not context)
        return Telling(sentence(main(told) + reason), roles=roles(told))

    return _two_sentences(tell)


# Long-distance order: the German verb waits for its clause's end


def _joined(dice: Dice, used: set[Noun], conjunction: Conjunction) -> Clause:
    """A clause that makes sense behind this conjunction."""
    lasting = {lex.WHILE: True, lex.WHEN: False}.get(conjunction)
    forms: Sequence[Form] = JOINED_FORMS if lasting is None else ("past",)
    return activity(dice, used, lasting=lasting, forms=forms, extras=0.1, timed=False)


def order(dice: Dice) -> Scene:
    """When the farmer came back, the children were sleeping. The man has called the woman."""
    kind = dice.choose(("main", "main", "joined", "opened", "that"))
    if kind == "main":
        clause = activity(dice, set(), forms=("perfect", "perfect", "perfect", *lex.MODALS), extras=0.35)
        if clause.time and dice.chance(0.5):
            clause = replace(clause, front="time")
        return _one_reading(Telling(sentence(main(clause)), roles=roles(clause)))
    if kind == "that":
        knower = dice.choose(lex.PERSONS)
        fact = activity(dice, {knower}, forms=("past", *lex.MODALS))
        verb = dice.choose((lex.KNOW[1], lex.HEAR, lex.SEE))
        clause = Clause(subject=phrase(dice, knower), verb=verb, complement=fact)
        return _one_reading(Telling(sentence(main(clause)), roles=roles(fact)))
    conjunction = dice.choose((lex.BECAUSE, lex.WHEN, lex.WHILE, lex.ALTHOUGH))
    used: set[Noun] = set()
    clause = activity(dice, used, forms=JOINED_FORMS, extras=0.1)
    joined = _joined(dice, used, conjunction)
    if kind == "opened":
        return _one_reading(Telling(sentence(Link(conjunction).open(joined, clause)), roles=roles(clause)))
    return _one_reading(Telling(sentence(main(clause) + Link(conjunction).join(joined)), roles=roles(clause)))


# Length: clauses chain


def chain(dice: Dice, *, at_least: int = 13) -> Scene:
    """The man opened the door because the dog was hungry, and the woman laughed when …"""
    used: set[Noun] = set()
    first = activity(dice, used, forms=JOINED_FORMS, extras=0.1)
    pair, last = main(first), first
    subordinated = False
    while len(pair.en) < at_least:
        if not subordinated and dice.chance(0.3) and (reason := because_of_a_feeling(dice, last)).en:
            pair, subordinated = pair + reason, True
            continue
        conjunctions = (
            (lex.AND, lex.BUT) if subordinated else (lex.AND, lex.BUT, lex.BECAUSE, lex.WHEN, lex.WHILE, lex.ALTHOUGH)
        )
        conjunction = dice.choose(conjunctions)
        last = _joined(dice, used, conjunction)
        pair, subordinated = pair + Link(conjunction).join(last), conjunction.subordinating
    return _one_reading(Telling(sentence(pair), roles=roles(first)))


RULES: dict[str, Rule] = {
    "pronoun": pronoun,
    "sense": sense,
    "roles": who_does_what,
    "far": far_reference,
    "agreement": agreement,
    "negation": negation,
    "order": order,
    "chain": chain,
}
"""The rule of each phenomenon tag."""

SHARES = {
    "pronoun": 16,
    "sense": 15,
    "roles": 22,
    "far": 10,
    "agreement": 8,
    "negation": 10,
    "order": 13,
    "chain": 6,
}
"""How often each is drawn, in per cent."""

CONTRASTED = ("pronoun", "sense", "roles", "far", "agreement", "negation")
"""Those with readings to confuse."""
