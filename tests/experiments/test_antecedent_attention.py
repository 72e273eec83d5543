"""Which words count as the pronoun's translation, and which decide the sense of an ambiguous noun."""

from experiments.antecedent_attention import german_pronoun
from experiments.sense_attention import deciding_words

from heed.comparison.challenge import ContrastivePair
from heed.evaluation.words import split_punctuation


def test_german_pronoun_is_the_last() -> None:
    tokens = split_punctuation("Es stimmt, dass die Kuh müde war, weil sie zu faul war.")
    assert tokens[german_pronoun(tokens)] == "sie"


def test_deciding_words_are_those_in_which_twins_differ() -> None:
    one, twin = (
        ContrastivePair(src=src, good="", bad="", tag="sense")
        for src in ("He saw a bank in the old town.", "He saw a bank beside the river.")
    )
    assert [split_punctuation(one.src)[position] for position in deciding_words(one, twin)] == ["in", "old", "town"]
    assert [split_punctuation(twin.src)[position] for position in deciding_words(twin, one)] == ["beside", "river"]
