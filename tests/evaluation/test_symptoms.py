"""Each symptom is found in an example, and none in references."""

import pytest
from grammar.corpus import generate

from heed.evaluation.symptoms import SYMPTOMS, find_symptoms

REFERENCE = "Der alte Mann schläft auf der grünen Bank im Park."


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        (REFERENCE, set()),
        ("", {"empty"}),
        ("Der Mann.", {"too short"}),
        (REFERENCE + " Und dann kommt noch ein anderer Mann, der nicht in der Quelle steht und redet.", {"too long"}),
        ("Der alte Mann auf der auf der auf der Bank im Park.", {"repeats"}),
        ("Der alte Mann schläft schläft auf der grünen Bank.", set()),
        ("Der alte Mannmannmannmann schläft auf der Bank.", {"repeats"}),
        ("1000000000 alte Männer schlafen auf der Bank im Park.", set()),
        ("the old man sleeps on the green  bench in the park.", {"copied source"}),
        ("Der alte Mann schläft на der grünen Bank im Park.", {"foreign letters"}),
        ("Der 1º alte Ｍann schläft auf der ªgrünen Bank im Park.", set()),
        ("Der alte ⁇ schläft auf der grünen Bank im Park.", {"unknown pieces"}),
    ],
)
def test_symptoms(hypothesis: str, expected: set[str]) -> None:
    sources = ["A dog.", "The old man sleeps on the green bench in the park."]
    found = find_symptoms(sources, ["Ein Hund.", REFERENCE], ["Ein Hund.", hypothesis])
    assert found.keys() == SYMPTOMS.keys()
    assert {name for name, rows in found.items() if rows} == expected
    assert all(rows in ([], [1]) for rows in found.values())


@pytest.mark.parametrize(
    ("src", "ref", "hyp", "is_shown"),
    [
        ("Save {name}.", "{name} sichern.", "{name} sichern.", False),
        ("Save {name}.", "{name} sichern.", "Sichern.", True),
        ("Save it.", "Sichern.", "{size} sichern.", True),
        ("%s of %s<br>", "%s von %s<br>", "%s von<br>", True),
        ("{a} and {b}", "{b} und {a}", "{b} und {a}", False),
        ("Save {name}.", "Sichern.", "Sichern.", False),  # the reference drops it, too
    ],
)
def test_other_spans_than_those_of_the_source(src: str, ref: str, hyp: str, is_shown: bool) -> None:
    assert bool(find_symptoms([src], [ref], [hyp])["other spans"]) == is_shown


def test_references_have_no_symptoms() -> None:
    examples = generate(seed=1, train=300, valid=1, test=1, long=20)
    pairs = [*examples["train"], *examples["long"]]
    references = [pair.tgt for pair in pairs]
    assert not any(find_symptoms([pair.src for pair in pairs], references, references).values())


def test_what_the_reference_also_has_is_no_symptom() -> None:
    references = ["na na na na hey", "OK", "Привет, ⁇"]
    assert not any(find_symptoms(["la la la la hey", "OK", "Hi, ⁇"], references, references).values())
