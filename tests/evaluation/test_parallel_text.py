"""Faults that are put into a generated text are found where they are, and none is found in the text itself."""

import random
import re
from collections.abc import Callable, Collection, Mapping

import pytest
from grammar.corpus import generate

from heed.evaluation.diagnosis import describe, is_notable
from heed.evaluation.parallel_text import LINES, Fault, Sides, find_faults

PAIRS = 2_000
SETS = ("", "valid", "test")
Pair = tuple[str, str]
Damage = Callable[[str, str], Pair]

FRENCH = ("Le vieux fermier", "Une petite fille", "Le chat noir", "La reine", "Un ours", "Mon frère", "Le voisin")
SEES = ("regarde toujours", "ne voit pas", "cherche encore", "aime beaucoup", "montre souvent")
OBJECTS = ("la maison près du pont .", "le chien dans le jardin .", "un livre sur la table .", "les oiseaux du parc .")


def swap(src: str, tgt: str) -> Pair:
    return tgt, src


def french(src: str, tgt: str) -> Pair:
    rng = random.Random(tgt)
    return src, " ".join(map(rng.choice, (FRENCH, SEES, OBJECTS)))


CLEAN = (
    "KÁMA AKYTÂ’AI IKATÚRÔ” AMANHÃ”", "«À l’école» d’État, ŒUVRE CŒUR", "„Übung“ »Über« ‚Öl‘ GRÖßE MÜSSEN",
    "PIĘŚCI CZĘŚCI RÓŻA ŻÓŁĆ źdźbło", "TÉŽ MÍŠA ČŠTĚ Žluťoučký kůň", "Группа В» класса Е» НА ЕЁ США Ті СІЛІ ДІТІ",
    "Üşüdüm DÜŞ İÇİN", "Ăştia în casă CASĂ” ŢARĂ",
)  # fmt: skip
"""Lines with parts that are valid UTF-8 in an 8-bit encoding."""

DAMAGES: list[tuple[str, Damage]] = [
    ("swapped", swap),
    ("untranslated", lambda src, tgt: (src, src)),
    ("untranslated", lambda src, tgt: (tgt, tgt)),
    ("third_language", french),
    ("encoding", lambda src, tgt: (src, f"{tgt} fÃ¼r")),
    ("encoding", lambda src, tgt: (src, f"{tgt} f\ufffdr")),
    ("markup", lambda src, tgt: (f'<p class="x">{src}</p>', tgt)),
    ("markup", lambda src, tgt: (src, f"{tgt} &amp; Co.")),
    ("segmented", lambda src, tgt: (src, re.sub(r"(\w\w\w)(?=\w)", r"\1@@ ", f"{tgt} Hundehütte"))),
    ("segmented", lambda src, tgt: (re.sub(r"(^| )", r"\1▁", src), tgt)),
    ("segmented", lambda src, tgt: (src, f"{tgt} Hunde ##hütte")),
    ("segmented", lambda src, tgt: (src, f"{tgt} Hunde ￭hütte")),
    ("segmented", lambda src, tgt: (src, f"Es Ġist Ġein ĠHund . {tgt}")),
    ("tabs", lambda src, tgt: (src.replace(" ", "\t", 1), tgt)),
    ("invisible", lambda src, tgt: (src, f"{tgt}\u200b")),
    ("invisible", lambda src, tgt: (f"\ufeff{src}", tgt)),
    ("invisible", lambda src, tgt: (src[:1] + "\xad" + src[1:], tgt)),
    ("spaces", lambda src, tgt: (src.replace(" ", "\xa0", 1), tgt)),
    ("spaces", lambda src, tgt: (src, tgt.replace(" ", "  ", 1))),
    ("decomposed", lambda src, tgt: (src, f"{tgt} Tu\u0308r")),
    ("empty", lambda src, tgt: (src, " ")),
    ("empty", lambda src, tgt: ("", tgt)),
    ("duplicates", lambda src, tgt: ("The dog sleeps .", "Der Hund schläft .")),
]


@pytest.fixture(scope="module")
def corpus() -> dict[str, Sides]:
    """A training text, a validation set and a test set, by `SETS`."""
    generated = generate(seed=3, train=PAIRS, valid=250, test=300, long=2)
    parts = zip(SETS, ("train", "valid", "test"), strict=True)
    return {split: Sides([e.src for e in generated[part]], [e.tgt for e in generated[part]]) for split, part in parts}


def faults(corpus: Mapping[str, Sides], split: str, damaged: Sides | None = None) -> dict[str, Fault]:
    """The faults of one text of the corpus, which may be replaced by another one."""
    text = corpus[split] if damaged is None else damaged
    return {fault.name: fault for fault in find_faults(text, corpus["" if split else "valid"], split)}


def damage(text: Sides, change: Damage, rows: Collection[int]) -> Sides:
    pairs = [change(*pair) if row in rows else pair for row, pair in enumerate(zip(text.src, text.tgt, strict=True))]
    return Sides([src for src, _ in pairs], [tgt for _, tgt in pairs])


def test_spaces_and_accents_of_a_line() -> None:
    assert LINES["spaces"]("The  hat")
    assert not LINES["spaces"]("  The hat  ")
    assert LINES["decomposed"]("cafe\u0301")
    assert not LINES["decomposed"]("café")


@pytest.mark.parametrize("split", SETS)
def test_a_good_text_has_no_faults(corpus: dict[str, Sides], split: str) -> None:
    assert faults(corpus, split) == {}


def test_many_shared_spans_of_a_training_text_are_named(corpus: dict[str, Sides]) -> None:
    def with_name(src: str, tgt: str) -> tuple[str, str]:
        return f"{{name}} : {src}", f"{tgt} {{name}}"

    many, few = range(0, PAIRS, 10), range(0, PAIRS, 30)
    found = faults(corpus, "", damage(corpus[""], with_name, many))
    assert {name: fault.rows for name, fault in found.items()} == {"protected": [*many]}
    assert "tokenizer.placeholders" in describe(found["protected"])
    assert not is_notable(found["protected"]), "a model learns well without"
    assert faults(corpus, "", damage(corpus[""], with_name, few)) == {}
    assert faults(corpus, "valid", damage(corpus["valid"], with_name, range(250))) == {}


@pytest.mark.parametrize("split", SETS)
@pytest.mark.parametrize(("name", "change"), DAMAGES)
def test_faults_of_single_pairs_are_found_in_their_lines(
    corpus: dict[str, Sides], name: str, change: Damage, split: str
) -> None:
    size = len(corpus[split])
    broken = set(random.Random(1).sample(range(size), size * 3 // 20))
    found = faults(corpus, split, damage(corpus[split], change, broken))
    assert set(found) == {name}
    assert set(found[name].rows) <= broken
    assert len(found[name].rows) > 0.9 * len(broken)
    assert found[name].share == len(found[name].rows) / size
    assert found[name].split == split


@pytest.mark.parametrize("split", SETS)
@pytest.mark.parametrize("form", ["{} {}", "{}. {}", "({}) {}", "{:05}: {}"])
@pytest.mark.parametrize("side", [0, 1])
def test_numbers_of_lines_are_found(corpus: dict[str, Sides], split: str, form: str, side: int) -> None:
    sides = [corpus[split].src, corpus[split].tgt]
    sides[side] = [form.format(number, line) for number, line in enumerate(sides[side], 1)]
    numbered = faults(corpus, split, Sides(*sides))["numbered"]
    assert [*numbered.rows] == [*range(1, len(corpus[split]))]


@pytest.mark.parametrize("split", SETS)
@pytest.mark.parametrize("constant", ["nan", "NULL", "#N/A", "Not available.", "…"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_constant_in_place_of_translations_is_found(
    corpus: dict[str, Sides], constant: str, side: int, split: str
) -> None:
    broken = range(0, len(corpus[split]), 7)
    damaged = damage(corpus[split], lambda src, tgt: (constant, tgt) if side == 0 else (src, constant), broken)
    found = faults(corpus, split, damaged)
    assert set(found) == {"constant"}
    assert set(found["constant"].rows) <= {*broken}
    assert len(found["constant"].rows) > 0.6 * len(broken)  # the others are short


def test_a_hundredth_of_the_sentences_in_a_third_language_is_found(corpus: dict[str, Sides]) -> None:
    broken = set(random.Random(1).sample(range(PAIRS), PAIRS // 100))
    found = faults(corpus, "", damage(corpus[""], french, broken))
    assert set(found["third_language"].rows) <= broken
    assert len(found["third_language"].rows) > 0.8 * len(broken)


def names(src: str, tgt: str) -> Pair:
    rng = random.Random(tgt)
    line = ", ".join(rng.sample(["Maria Bauer", "Tom Smith", "Li Wei", "Ana Cruz", "Jean Petit", "Ali Khan"], 4))
    return line, line + " ."


@pytest.mark.parametrize(
    ("fault", "change", "rows"),
    [
        ("constant", lambda src, tgt: (f"Nein, nein {hash(src) % 99}.", "No."), range(0, PAIRS, 9)),
        ("third_language", names, range(0, PAIRS, 20)),
        ("any", lambda src, tgt: (src, f"Ġorġ u Ġanni ## {tgt}"), range(PAIRS)),  # letters of Maltese, and headings
        ("any", lambda src, tgt: (f"{src} a@@ b", tgt), range(0, PAIRS, 40)),
    ],
    ids=["short answers", "lists of names", "no segmentation", "some marks of subwords"],
)
def test_what_resembles_a_fault_is_none(corpus: dict[str, Sides], fault: str, change: Damage, rows: range) -> None:
    found = faults(corpus, "", damage(corpus[""], change, rows))
    assert fault not in found if fault != "any" else found == {}


def test_numbered_paragraphs_are_no_numbers_of_lines(corpus: dict[str, Sides]) -> None:
    text = corpus[""]
    src = [f"{row // 3 + 1}. {line}" if row % 3 == 0 else line for row, line in enumerate(text.src)]
    assert faults(corpus, "", Sides(src, [f"7 {line}" for line in text.tgt])) == {}


def test_a_set_of_few_pairs_is_examined(corpus: dict[str, Sides]) -> None:
    few = Sides(corpus["test"].src[:40], corpus["test"].tgt[:40])
    assert faults(corpus, "test", few) == {}
    assert faults(corpus, "test", damage(few, swap, [7, 8]))["swapped"].rows == [7, 8]
    assert len(faults(corpus, "test", Sides(few.src, few.tgt[1:] + few.tgt[:1]))["shifted"].rows) > 30


def test_a_copied_sentence_needs_no_statistics() -> None:
    text = Sides(["the lamp is on here.", "Tom."], ["the lamp is on here.", "Tom."])
    assert {fault.name: fault.rows for fault in find_faults(text, Sides([], []))} == {"untranslated": [0]}


@pytest.mark.parametrize("split", SETS)
@pytest.mark.parametrize("offset", [1, -2])
def test_a_shift_of_all_lines_is_found(corpus: dict[str, Sides], split: str, offset: int) -> None:
    text = corpus[split]
    found = faults(corpus, split, Sides(text.src, [text.tgt[(row + offset) % len(text)] for row in range(len(text))]))
    assert set(found) == {"shifted"}
    assert found["shifted"].share > 0.98


@pytest.mark.parametrize(("split", "first", "stop"), [("", 1000, 1300), ("", 1017, 1072), ("", 133, 1800),
                                                     ("valid", 120, 190), ("test", 111, 166)])  # fmt: skip
def test_a_shift_of_some_lines_is_found_there(corpus: dict[str, Sides], split: str, first: int, stop: int) -> None:
    src, tgt = corpus[split].src, corpus[split].tgt
    shifted = Sides(src, [*tgt[:first], *tgt[first + 1 : stop + 1], tgt[first], *tgt[stop + 1 :]])
    found = faults(corpus, split, shifted)
    assert set(found) == {"shifted"}
    rows = found["shifted"].rows
    assert rows == [*range(rows[0], rows[-1] + 1)]
    assert abs(rows[0] - first) <= 3
    assert abs(rows[-1] - stop) <= 4


def test_several_shifted_blocks_are_told_apart(corpus: dict[str, Sides]) -> None:
    tgt = [*corpus[""].tgt]
    for first in (210, 730, 1500):
        tgt[first : first + 90] = [*tgt[first + 1 : first + 90], tgt[first]]
    rows = {*faults(corpus, "", Sides(corpus[""].src, tgt))["shifted"].rows}
    damaged = {row for first in (210, 730, 1500) for row in range(first, first + 90)}
    assert len(rows ^ damaged) < 20


def test_the_fraction_of_unrelated_pairs_is_estimated(corpus: dict[str, Sides]) -> None:
    text, rng = corpus[""], random.Random(2)
    rows = [row for row in range(PAIRS) if rng.random() < 0.6]
    exchanged = dict(zip(rows, rng.sample(rows, len(rows)), strict=True))
    found = faults(corpus, "", Sides(text.src, [text.tgt[exchanged.get(row, row)] for row in range(PAIRS)]))
    assert set(found) == {"unrelated"}
    assert found["unrelated"].share == pytest.approx(0.6, abs=0.12)


@pytest.mark.parametrize("split", SETS)
def test_a_text_in_another_order_is_unrelated(corpus: dict[str, Sides], split: str) -> None:
    text = corpus[split]
    found = faults(corpus, split, Sides(text.src, random.Random(2).sample(text.tgt, len(text))))
    assert {name: fault.share for name, fault in found.items()} == {"unrelated": 1.0}


def test_lists_of_names_are_not_unrelated(corpus: dict[str, Sides]) -> None:
    rng, names = random.Random(2), [f"Mr Smith-{number}" for number in range(PAIRS)]
    text = Sides(*([f"{name} {rng.choice(side).split()[1]}" if rng.random() < 0.2 else name for name in names]
                   for side in (corpus["valid"].src, corpus["valid"].tgt)))  # fmt: skip
    assert "unrelated" not in faults(corpus, "", text)


def test_cut_targets_are_no_other_fault(corpus: dict[str, Sides]) -> None:
    text = corpus[""]
    cut = [" ".join(words[: len(words) // 3 + 1]) for words in map(str.split, text.tgt)]
    cut_text = Sides(text.src, cut)
    assert faults(corpus, "", cut_text) == {}
    assert find_faults(corpus["valid"], cut_text, "valid") == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("upper_case", str.lower),
        ("punctuation", lambda line: line.replace(" .", ".")),
        ("script", lambda line: "".join(chr(ord("а") + ord(c) % 32) if c.isalpha() else c for c in line)),
    ],
)
def test_a_text_that_is_written_in_another_way_than_a_set(
    corpus: dict[str, Sides], name: str, change: Callable[[str], str]
) -> None:
    train, valid = ([line.rstrip(" .") + " ." for line in corpus[split].tgt[:150]] for split in ("", "valid"))
    text = Sides(corpus[""].src[:150], [change(line) for line in train])
    assert name in {fault.name for fault in find_faults(Sides(corpus["valid"].src[:150], valid), text, "valid")}


@pytest.mark.parametrize("split", SETS)
def test_tokenized_and_lower_cased_text_is_named(corpus: dict[str, Sides], split: str) -> None:
    texts = {name: Sides([line.lower().replace(".", " .") for line in text.src], text.tgt)
             for name, text in corpus.items()}  # fmt: skip
    assert set(faults(texts, split)) == {"tokenized", "lower_cased"}
    french = Sides(corpus[split].src, [line.replace(".", " !") for line in corpus[split].tgt])
    assert "tokenized" not in faults(corpus, split, french)


def test_a_text_without_a_validation_set(corpus: dict[str, Sides]) -> None:
    assert find_faults(corpus[""], Sides([], [])) == []
    assert find_faults(Sides([], []), Sides([], [])) == []
    assert find_faults(Sides([], []), corpus[""], "test") == []


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        *[(line, True) for line in ("KÃ¶ln", "â€™s", "Â\xa0", "жизнь".encode().decode("cp1251"))],
        *[
            (text.encode().decode(encoding), True)
            for text in ("er läuft", "die Straße", "it’s", "l’été")
            for encoding in ("mac_roman", "cp437", "cp850", "cp1250", "cp1251")
        ],
        *[(line, False) for line in CLEAN],
    ],
)
def test_capitals_before_a_quotation_mark_are_no_misread_text(line: str, is_fault: bool) -> None:
    found = {fault.name for fault in find_faults(Sides([line], ["a"]), Sides([], []))}
    assert ("encoding" in found) == is_fault
