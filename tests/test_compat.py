"""The private interfaces of libraries that heed uses: a test fails when a library changes them."""

from sacrebleu.metrics import BLEU, CHRF

from heed.compat import sacrebleu_sentence_statistics

# ---- sacrebleu


def test_sacrebleu_statistics_are_the_counts_of_each_sentence() -> None:
    hypotheses, references = ["a b c", "a"], ["a b c d", "b"]
    # Lengths of hypothesis and reference, matching n-grams and all n-grams of the hypothesis for n = 1 to 4.
    expected = [[3, 4, 3, 2, 1, 0, 3, 2, 1, 0], [1, 1, 0, 0, 0, 0, 1, 0, 0, 0]]
    assert sacrebleu_sentence_statistics(BLEU(force=True), hypotheses, references) == expected
    # For n = 1 to 6: character n-grams of the hypothesis, of the reference, and the matching ones.
    chrf = sacrebleu_sentence_statistics(CHRF(), hypotheses, references)
    assert [row[:6] for row in chrf] == [[3, 4, 3, 2, 3, 2], [1, 1, 0, 0, 0, 0]]
    assert {len(row) for row in chrf} == {18}
