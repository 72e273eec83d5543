"""Reading run folders: the common test set, names, and copies without models."""

import json
from pathlib import Path
from typing import Any

import pytest

from heed.comparison.runs import _short_names, read_other_sides, read_sides, side_names
from heed.errors import HeedError

LINES = {"src": ["a b", "c"], "ref": ["x", "y"], "hyp": ["x", "z"]}


def write_run(path: Path, *, splits: tuple[str, ...] = ("test",), **results: Any) -> Path:
    (path / "translations").mkdir(parents=True)
    for split in splits:
        for suffix, lines in LINES.items():
            text = "".join(f"{line}\n" for line in lines)
            (path / "translations" / f"{split}.{suffix}").write_text(text)
    facts = {
        "name": "n",
        "params": 1,
        "steps": 1,
        "tokens": 1,
        "valid": {},
        "tests": {split: {} for split in splits},
        **results,
    }
    (path / "results.json").write_text(json.dumps(facts))
    return path


def test_the_first_common_split_is_read(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", splits=("test", "news", "long"))
    second = write_run(tmp_path / "b", splits=("long", "news"))
    test_set, sides = read_sides([("a", [first]), ("b", [second])], None)
    assert (test_set.split, test_set.sources, test_set.references) == ("news", LINES["src"], LINES["ref"])
    assert (test_set.tags, test_set.word_counts) == (None, None)
    assert [side.runs[0].translations for side in sides] == [LINES["hyp"]] * 2
    assert not sides[0].runs[0].has_model
    assert read_sides([("a", [first]), ("b", [second])], "long")[0].split == "long"


def test_runs_without_a_common_split_are_an_error(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / name, splits=(name,)) for name in ("a", "b")]
    with pytest.raises(HeedError, match="have no test set in common"):
        read_sides([(path.name, [path]) for path in paths], None)


def test_the_other_test_sets_are_read_and_those_that_differ_are_named(tmp_path: Path) -> None:
    groups = [(name, [write_run(tmp_path / name, splits=("test", "news", "long"))]) for name in "ab"]
    write_run(tmp_path / "c", splits=("test", "news"))
    (tmp_path / "b" / "translations" / "news.src").write_text("a b\nd\n")
    others, warnings = read_other_sides(groups, read_sides(groups, None)[1], "test")
    assert [test_set.split for test_set, _ in others] == ["long"]
    (warning,) = warnings
    assert warning.startswith("The verdict does not cover news: ")
    groups[1] = ("c", [tmp_path / "c"])
    assert [other.split for other, _ in read_other_sides(groups, read_sides(groups, None)[1], "test")[0]] == ["news"]


def test_a_line_separator_inside_a_sentence_does_not_end_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    (run / "translations" / "test.hyp").write_text("x\u2028x\r\nz\n", encoding="utf-8", newline="")
    _, (side,) = read_sides([("a", [run])], "test")
    assert side.runs[0].translations == ["x\u2028x\r", "z"]


def test_damaged_annotations_are_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    (run / "translations" / "test.meta.jsonl").write_text('{"tag": "x"}\n[\n')
    with pytest.raises(HeedError, match=r"test\.meta\.jsonl is damaged"):
        read_sides([("a", [run])], "test")


def test_results_without_required_keys_are_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    (run / "results.json").write_text(json.dumps({"name": "n", "tests": {}, "valid": {}}))
    with pytest.raises(HeedError, match=r"results\.json lacks params, steps"):
        read_sides([("a", [run])], "test")


def test_names_are_unique(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / folder / "t", name=name) for folder, name in (("a", "n"), ("b", "m"), ("c", "n"))]
    assert side_names(paths[:2]) == ["n", "m"]
    assert side_names(paths) == [str(path) for path in paths]
    other = write_run(tmp_path / "d" / "u", name="n")
    assert side_names([paths[0], other]) == ["n/t", "n/u"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["model/attention=additive", "model/attention=dot"], ["additive", "dot"]),
        (["model.dropout=0.1", "model.dropout=0.3"], None),
        (["model=rnn seed=1", "model=rnn seed=2"], None),
        (["model=rnn", "model/attention=dot"], None),
        (["0_rnn", "1_rnn"], None),
        ([], None),
    ],
)
def test_the_option_of_all_names_is_left_out(names: list[str], expected: list[str] | None) -> None:
    assert _short_names(names) == (expected or names)
