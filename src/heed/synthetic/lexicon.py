"""The bilingual lexicon of the built-in corpus: words in English and German with their grammatical features."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Gender = Literal["m", "f", "n"]
Case = Literal["nom", "acc", "dat"]


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun and its translation.

    Attributes:
        gender: the German grammatical gender.
        sex: "m" or "f" if the English pronoun is "he" or "she"; None if it is "it".
        weak: the German accusative and dative singular of a weak noun (der Junge, den Jungen).
        mass: a mass noun, which has no indefinite article.
    """

    en: str
    de: str
    gender: Gender
    en_plural: str = ""
    de_plural: str = ""
    sex: Literal["m", "f"] | None = None
    weak: str = ""
    mass: bool = False

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
class Preposition:
    """A preposition in one sense, with the German case it governs (in: in der Tasche; into: in die Tasche)."""

    en: str
    de: str
    case: Case


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with the forms that the grammar uses.

    Attributes:
        base, en_past, en_participle: the English forms.
        infinitive, past, participle: the German forms; ``past`` is the third person singular, without ``prefix``.
        prefix: the German separable prefix (*auf*heben).
        particle: the English particle (pick *up*).
        gerund: the English -ing form, given for durative verbs, whose past is progressive (was sleeping).
        case: the case of the German object.
        preposition: the German preposition before the object, if there is one (gegen den Ball treten).
        auxiliary: the German auxiliary of the perfect.
        present: German present forms: first person singular, third person singular, plural.
    """

    base: str
    en_past: str
    en_participle: str
    infinitive: str
    past: str
    participle: str
    prefix: str = ""
    particle: str = ""
    gerund: str = ""
    case: Case = "acc"
    preposition: str = ""
    auxiliary: Literal["haben", "sein"] = "haben"
    present: tuple[str, str, str] = ("", "", "")

    @property
    def zu_infinitive(self) -> tuple[str, ...]:
        """The words of the zu-infinitive: (zu, sehen), but (einzuzahlen,) for a separable verb."""
        if not self.prefix:
            return "zu", self.infinitive
        return (f"{self.prefix}zu{self.infinitive.removeprefix(self.prefix)}",)


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
    places: tuple[tuple[Preposition, Noun], ...]
    """Places that select it."""


# Prepositions

IN, INTO = Preposition("in", "in", "dat"), Preposition("into", "in", "acc")
ON, UNDER = Preposition("on", "auf", "dat"), Preposition("under", "unter", "dat")
BEHIND, BESIDE = Preposition("behind", "hinter", "dat"), Preposition("beside", "neben", "dat")
AT, IN_THE_COURSE_OF = Preposition("at", "an", "dat"), Preposition("in", "an", "dat")
TO, BY, WITH = Preposition("to", "zu", "dat"), Preposition("by", "von", "dat"), Preposition("with", "mit", "dat")

# Persons, animals and names

MAN = Noun("man", "Mann", "m", "men", "Männer", sex="m")
WOMAN = Noun("woman", "Frau", "f", "women", "Frauen", sex="f")
BOY = Noun("boy", "Junge", "m", "boys", "Jungen", sex="m", weak="Jungen")
KING = Noun("king", "König", "m", "kings", "Könige", sex="m")
QUEEN = Noun("queen", "Königin", "f", "queens", "Königinnen", sex="f")
FARMER = Noun("farmer", "Bauer", "m", "farmers", "Bauern", sex="m", weak="Bauern")
CHILD = Noun("child", "Kind", "n", "children", "Kinder")
GIRL = Noun("girl", "Mädchen", "n", "girls", "Mädchen")
CHILDREN = (BOY, CHILD, GIRL)
PERSONS = (MAN, WOMAN, BOY, KING, QUEEN, FARMER, CHILD, GIRL)
HE_OR_SHE = tuple(person for person in PERSONS if person.sex)

DOG, FOX, BEAR = Noun("dog", "Hund", "m"), Noun("fox", "Fuchs", "m"), Noun("bear", "Bär", "m", weak="Bären")
CAT, COW, GOAT = Noun("cat", "Katze", "f"), Noun("cow", "Kuh", "f"), Noun("goat", "Ziege", "f")
ANIMAL, HORSE, PIG = Noun("animal", "Tier", "n"), Noun("horse", "Pferd", "n"), Noun("pig", "Schwein", "n")
FISH = Noun("fish", "Fisch", "m")
ANIMALS = (DOG, FOX, BEAR, CAT, COW, GOAT, ANIMAL, HORSE, PIG)
BEINGS = PERSONS + ANIMALS

SARAH, ANNA = Noun("Sarah", "Sarah", "f", sex="f"), Noun("Anna", "Anna", "f", sex="f")
PETER, PAUL = Noun("Peter", "Peter", "m", sex="m"), Noun("Paul", "Paul", "m", sex="m")
NAMES = (SARAH, ANNA, PETER, PAUL)
PETS = (DOG, CAT, HORSE, PIG, GOAT)
PET_NAMES = tuple(Noun(name, name, "n") for name in ("Alex", "Max", "Luna"))

# Things

BALL, HAT = Noun("ball", "Ball", "m"), Noun("hat", "Hut", "m")
KEY = Noun("key", "Schlüssel", "m", "keys", "Schlüssel")
CHEQUE, WATCH = Noun("cheque", "Scheck", "m"), Noun("watch", "Uhr", "f")
CUP = Noun("cup", "Tasse", "f", "cups", "Tassen")
FLOWER = Noun("flower", "Blume", "f", "flowers", "Blumen")
BOOK, PICTURE = Noun("book", "Buch", "n", "books", "Bücher"), Noun("picture", "Bild", "n", "pictures", "Bilder")
THINGS = (BALL, HAT, KEY, WATCH, CUP, FLOWER, BOOK, PICTURE)

SUITCASE = Noun("suitcase", "Koffer", "m")
CABINET = Noun("cabinet", "Schrank", "m", "cabinets", "Schränke")
BAG, BOX = Noun("bag", "Tasche", "f", "bags", "Taschen"), Noun("box", "Kiste", "f", "boxes", "Kisten")
GLASS, BOAT = Noun("glass", "Glas", "n"), Noun("boat", "Boot", "n")
CONTAINERS = (SUITCASE, CABINET, BAG, BOX, GLASS, BOAT)

TABLE, CHAIR = Noun("table", "Tisch", "m", "tables", "Tische"), Noun("chair", "Stuhl", "m", "chairs", "Stühle")
CAR, HOUSE = Noun("car", "Auto", "n", "cars", "Autos"), Noun("house", "Haus", "n", "houses", "Häuser")
DOOR, ROOM = Noun("door", "Tür", "f"), Noun("room", "Zimmer", "n")

APPLE, CAKE = Noun("apple", "Apfel", "m"), Noun("cake", "Kuchen", "m")
SOUP, CARROT = Noun("soup", "Suppe", "f", mass=True), Noun("carrot", "Karotte", "f")
BREAD, EGG = Noun("bread", "Brot", "n", mass=True), Noun("egg", "Ei", "n")
FOOD = (APPLE, CAKE, SOUP, CARROT, BREAD, EGG)

TAIL, HEAD, NOSE = Noun("tail", "Schwanz", "m"), Noun("head", "Kopf", "m"), Noun("nose", "Nase", "f")
ROOF, WINDOW = Noun("roof", "Dach", "n"), Noun("window", "Fenster", "n")

# Places and times

STREET, BRIDGE = Noun("street", "Straße", "f"), Noun("bridge", "Brücke", "f")
RIVER, SQUARE = Noun("river", "Fluss", "m"), Noun("square", "Platz", "m")
FIELD, ICE = Noun("field", "Feld", "n"), Noun("ice", "Eis", "n")
PARK, GARDEN = Noun("park", "Park", "m"), Noun("garden", "Garten", "m")
CITY, CHURCH, BARN = Noun("city", "Stadt", "f"), Noun("church", "Kirche", "f"), Noun("barn", "Scheune", "f")
VILLAGE, FOREST = Noun("village", "Dorf", "n"), Noun("forest", "Wald", "m")
TOWER = Noun("tower", "Turm", "m")

EVENING, MORNING = Noun("evening", "Abend", "m"), Noun("morning", "Morgen", "m")

# Adjectives


def _adjectives(*pairs: str) -> tuple[Adjective, ...]:
    return tuple(Adjective(*pair.split("|")) for pair in pairs)


OLD, NEW, BIG, SMALL, BEAUTIFUL, RED = _adjectives(
    "old|alt", "new|neu", "big|groß", "small|klein", "beautiful|schön", "red|rot"
)
YOUNG, GOLD = _adjectives("young|jung", "gold|golden")
TIRED, HUNGRY, LAZY, WEAK = _adjectives("tired|müde|müd", "hungry|hungrig", "lazy|faul", "weak|schwach")
FRIGHTENED, GREEDY = _adjectives("frightened|ängstlich", "greedy|gierig")
WIDE, NARROW, DEEP, STEEP = _adjectives("wide|breit", "narrow|schmal", "deep|tief", "steep|steil")
SLIPPERY, CROWDED, GREEN = _adjectives("slippery|glatt", "crowded|voll", "green|grün")
THICK, FULL, FRESH, SWEET = _adjectives("thick|dick", "full|voll", "fresh|frisch", "sweet|süß")
LIGHT_WEIGHT, BRIGHT = _adjectives("light|leicht", "light|hell")

# Verbs

BE = Verb("be", "was", "been", "sein", "war", "gewesen", auxiliary="sein", present=("bin", "ist", "sind"))

SEE = Verb("see", "saw", "seen", "sehen", "sah", "gesehen")
HEAR = Verb("hear", "heard", "heard", "hören", "hörte", "gehört")
FIND = Verb("find", "found", "found", "finden", "fand", "gefunden")
CHASE = Verb("chase", "chased", "chased", "jagen", "jagte", "gejagt")
BITE = Verb("bite", "bit", "bitten", "beißen", "biss", "gebissen")
CATCH = Verb("catch", "caught", "caught", "fangen", "fing", "gefangen")
FOLLOW = Verb("follow", "followed", "followed", "folgen", "folgte", "gefolgt", case="dat", auxiliary="sein")
HELP = Verb("help", "helped", "helped", "helfen", "half", "geholfen", case="dat")
EAT = Verb("eat", "ate", "eaten", "essen", "aß", "gegessen")
DEVOUR = Verb("eat", "ate", "eaten", "fressen", "fraß", "gefressen")

GIVE = Verb("give", "gave", "given", "geben", "gab", "gegeben")
SHOW = Verb("show", "showed", "shown", "zeigen", "zeigte", "gezeigt")

BUY = Verb("buy", "bought", "bought", "kaufen", "kaufte", "gekauft")
SELL = Verb("sell", "sold", "sold", "verkaufen", "verkaufte", "verkauft")
VISIT = Verb("visit", "visited", "visited", "besuchen", "besuchte", "besucht")
READ = Verb("read", "read", "read", "lesen", "las", "gelesen")
OPEN = Verb("open", "opened", "opened", "aufmachen", "machte", "aufgemacht", "auf")
CLOSE = Verb("close", "closed", "closed", "zumachen", "machte", "zugemacht", "zu")
CALL = Verb("call", "called", "called", "anrufen", "rief", "angerufen", "an")
INVITE = Verb("invite", "invited", "invited", "einladen", "lud", "eingeladen", "ein")
PICK_UP = Verb("pick", "picked", "picked", "aufheben", "hob", "aufgehoben", "auf", particle="up")
KICK = Verb("kick", "kicked", "kicked", "treten", "trat", "getreten", preposition="gegen")
DEPOSIT = Verb("deposit", "deposited", "deposited", "einzahlen", "zahlte", "eingezahlt", "ein")
CROSS = Verb("cross", "crossed", "crossed", "überqueren", "überquerte", "überquert")
FIT = Verb("fit", "fitted", "fitted", "passen", "passte", "gepasst")
WEAR = Verb("wear", "wore", "worn", "tragen", "trug", "getragen", gerund="wearing")

SLEEP = Verb("sleep", "slept", "slept", "schlafen", "schlief", "geschlafen", gerund="sleeping")
WORK = Verb("work", "worked", "worked", "arbeiten", "arbeitete", "gearbeitet", gerund="working")
PLAY = Verb("play", "played", "played", "spielen", "spielte", "gespielt", gerund="playing")
LAUGH = Verb("laugh", "laughed", "laughed", "lachen", "lachte", "gelacht")
GET_UP = Verb("get", "got", "got", "aufstehen", "stand", "aufgestanden", "auf", particle="up", auxiliary="sein")
COME_BACK = Verb(
    "come", "came", "come", "zurückkommen", "kam", "zurückgekommen", "zurück", particle="back", auxiliary="sein"
)
WAIT_FOR = Verb(
    "wait", "waited", "waited", "warten", "wartete", "gewartet", particle="for", preposition="auf", gerund="waiting"
)

GO = Verb(
    "go", "went", "gone", "gehen", "ging", "gegangen", gerund="going", auxiliary="sein",
    present=("gehe", "geht", "gehen"),
)  # fmt: skip
WALK = Verb(
    "walk", "walked", "walked", "spazieren gehen", "ging", "spazieren gegangen", "spazieren", gerund="walking",
    auxiliary="sein",
)  # fmt: skip
GO_DOWN = Verb(
    "go", "went", "gone", "entlangfahren", "fuhr", "entlanggefahren", "entlang", particle="down", auxiliary="sein"
)

# English verbs with two German translations

KNOW = (
    Verb("know", "knew", "known", "kennen", "kannte", "gekannt"),
    Verb("know", "knew", "known", "wissen", "wusste", "gewusst"),
)
LEAVE = (
    Verb("leave", "left", "left", "verlassen", "verließ", "verlassen"),
    Verb("leave", "left", "left", "lassen", "ließ", "gelassen"),
)

# Modal verbs


WANT_TO, HAVE_TO = Modal("wanted", "wollte", "want", "to"), Modal("had", "musste", "have", "to")
CAN = Modal("could", "konnte")
MODALS = (WANT_TO, HAVE_TO, CAN)

# Conjunctions

BECAUSE, WHEN = Conjunction("because", "weil", True), Conjunction("when", "als", True)
WHILE, ALTHOUGH = Conjunction("while", "während", True), Conjunction("although", "obwohl", True)
AND, BUT = Conjunction("and", "und", False), Conjunction("but", "aber", False)

# Homonyms

BANK = Noun("bank", "Bank", "f"), Noun("bank", "Ufer", "n")
RIVER_BANK = Noun("river bank", "Flussufer", "n")

SEA, STADIUM, GYM = Noun("sea", "Meer", "n"), Noun("stadium", "Stadion", "n"), Noun("gym", "Turnhalle", "f")
CAVE, SWAMP, NEST = Noun("cave", "Höhle", "f"), Noun("swamp", "Sumpf", "m"), Noun("nest", "Nest", "n")
ENVELOPE, DOCUMENT = Noun("envelope", "Umschlag", "m"), Noun("document", "Urkunde", "f")
MACHINE, HARBOUR = Noun("machine", "Maschine", "f"), Noun("harbour", "Hafen", "m")
FACTORY, KITCHEN = Noun("factory", "Fabrik", "f"), Noun("kitchen", "Küche", "f")
CANDLE, WORD, SENTENCE = Noun("candle", "Kerze", "f"), Noun("word", "Wort", "n"), Noun("sentence", "Satz", "m")
LETTERBOX = Noun("letterbox", "Briefkasten", "m")

SENSES = (
    Sense(Noun("seal", "Robbe", "f"), ((IN, SEA), (ON, ICE))),
    Sense(Noun("seal", "Siegel", "n"), ((ON, DOCUMENT), (ON, ENVELOPE))),
    Sense(Noun("bat", "Fledermaus", "f"), ((IN, CAVE), (IN, TOWER))),
    Sense(Noun("bat", "Schläger", "m"), ((IN, GYM), (BESIDE, BALL))),
    Sense(Noun("spring", "Quelle", "f"), ((IN, FOREST), (IN, VILLAGE))),
    Sense(Noun("spring", "Feder", "f"), ((IN, WATCH), (IN, MACHINE))),
    Sense(Noun("match", "Spiel", "n"), ((IN, STADIUM), (IN, GYM))),
    Sense(Noun("match", "Streichholz", "n"), ((BESIDE, CANDLE), (IN, KITCHEN))),
    Sense(Noun("letter", "Brief", "m"), ((IN, ENVELOPE), (IN, LETTERBOX))),
    Sense(Noun("letter", "Buchstabe", "m", weak="Buchstaben"), ((IN, WORD), (IN, SENTENCE))),
    Sense(Noun("crane", "Kran", "m"), ((IN, HARBOUR), (BESIDE, FACTORY))),
    Sense(Noun("crane", "Kranich", "m"), ((IN, SWAMP), (IN, NEST))),
)
HOMONYMS = tuple(zip(SENSES[::2], SENSES[1::2], strict=True))
"""The two senses of each noun."""
