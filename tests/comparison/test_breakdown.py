"""Scores by bucket, and the example sentences."""

from heed.comparison import runs
from heed.comparison.comparison import SHOWN_EXAMPLES, bucketing_reports, extremes, largest_differences
from heed.comparison.pairs import side_statistics
from heed.evaluation.significance import bleu_of_sums, chrf_of_sums
from tests.comparison.sides import make_run, make_test_set

REFERENCES = [f"the {number} dogs saw {number + 7} cats and ran home" for number in range(30)]


def damage(lines: list[str], rows: range) -> list[str]:
    return ["x" if row in rows else line for row, line in enumerate(lines)]


def test_buckets_have_the_scores_of_their_sentences() -> None:
    test_set = make_test_set(REFERENCES, tags=["even" if row % 2 == 0 else "odd" for row in range(30)])
    side = runs.Side("a", [make_run(damage(REFERENCES, range(0, 30, 2)))])
    statistics = side_statistics(side, test_set)
    reports = {report.title: report for report in bucketing_reports(test_set, [statistics])}
    assert "Source length" not in reports  # all sentences are in one bucket
    scores = {bucket.label: bucket.scores["BLEU"][0].mean for bucket in reports["Phenomenon"].buckets}
    assert scores == {"even": 0, "odd": 100}
    assert [bucket.sentences for bucket in reports["Phenomenon"].buckets] == [15, 15]
    assert bleu_of_sums(statistics["BLEU"][0].sum(0)) < 100


def test_examples_are_divided_between_two_sides() -> None:
    test_set = make_test_set(REFERENCES)
    sides = [
        runs.Side("a", [make_run(damage(REFERENCES, range(20))), make_run(REFERENCES)]),
        runs.Side("b", [make_run(damage(REFERENCES, range(25, 28)))]),
    ]
    statistics = [side_statistics(side, test_set) for side in sides]
    examples = largest_differences(test_set, sides, statistics)
    lines = [example.line for example in examples]
    assert [line for line in lines if line > 20] == [26, 27, 28]
    assert len(lines) == SHOWN_EXAMPLES // 2 + 3
    for example in examples:
        row = example.line - 1
        assert example.reference == REFERENCES[row]
        assert example.translations == [side.runs[0].translations[row] for side in sides]
        assert example.chrf == [float(chrf_of_sums(own["chrF"][0][row])) for own in statistics]


def test_three_sides_are_ranked_by_the_range_of_chrf() -> None:
    test_set = make_test_set(REFERENCES)
    sides = [runs.Side(name, [make_run(damage(REFERENCES, rows))]) for name, rows in
             (("a", range(1)), ("b", range(2)), ("c", range(0)))]  # fmt: skip
    statistics = [side_statistics(side, test_set) for side in sides]
    assert sorted(example.line for example in largest_differences(test_set, sides, statistics)) == [1, 2]


def test_the_longest_exact_and_the_longest_lost_sentences_are_the_extremes() -> None:
    references = [f"{'very ' * row}good" for row in range(30)]
    test_set = make_test_set(references)
    sides = [runs.Side(name, [make_run(damage(references, rows))]) for name, rows in
             (("a", range(20, 30)), ("b", range(3)))]  # fmt: skip
    statistics = [side_statistics(side, test_set) for side in sides]
    first, second = extremes(test_set, sides, statistics)
    assert [[example.line for example in examples] for examples in (first.best, first.worst)] == [
        [20, 19, 18],
        [30, 29, 28],
    ]
    assert [[example.line for example in examples] for examples in (second.best, second.worst)] == [
        [30, 29, 28],
        [3, 2, 1],
    ]
    assert first.worst[0].translations == ["x"]
