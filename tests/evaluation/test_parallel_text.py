"""Faults that are put into a generated text are found where they are, and none is found in the text itself."""

import random
from collections.abc import Callable

import pytest

from heed.evaluation.parallel_text import Fault, Sides, find_faults
from heed.synthetic import generate

PAIRS = 2_000


@pytest.fixture(scope="module")
def corpus() -> tuple[Sides, Sides]:
    """A training text and a validation set."""
    generated = generate(seed=3, train=PAIRS, valid=250, test=2, long=2)
    train, valid = (
        Sides([e.src for e in part], [e.tgt for e in part]) for part in map(generated.get, ("train", "valid"))
    )
    return train, valid


def faults(text: Sides, valid: Sides) -> dict[str, Fault]:
    return {fault.name: fault for fault in find_faults(text, valid)}


def test_a_good_text_has_no_faults(corpus: tuple[Sides, Sides]) -> None:
    assert faults(*corpus) == {}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("swapped", lambda src, tgt: (tgt, src)),
        ("untranslated", lambda src, tgt: (src, src)),
        ("encoding", lambda src, tgt: (src, f"{tgt} fÃ¼r")),
        ("encoding", lambda src, tgt: (src, f"{tgt} f\ufffdr")),
        ("markup", lambda src, tgt: (f'<p class="x">{src}</p>', tgt)),
        ("markup", lambda src, tgt: (src, f"{tgt} &amp; Co.")),
        ("empty_targets", lambda src, tgt: (src, " ")),
        ("duplicates", lambda src, tgt: ("The dog sleeps .", "Der Hund schläft .")),
    ],
)
def test_faults_of_single_pairs_are_found_in_their_lines(
    corpus: tuple[Sides, Sides], name: str, change: Callable[[str, str], tuple[str, str]]
) -> None:
    train, valid = corpus
    broken = set(random.Random(1).sample(range(PAIRS), 300))
    pairs = [
        change(*pair) if row in broken else pair for row, pair in enumerate(zip(train.src, train.tgt, strict=True))
    ]
    found = faults(Sides([src for src, _ in pairs], [tgt for _, tgt in pairs]), valid)
    assert set(found) == {name}
    assert set(found[name].rows) <= broken
    assert len(found[name].rows) > 0.9 * len(broken)
    assert found[name].share == len(found[name].rows) / PAIRS


@pytest.mark.parametrize("offset", [1, -2])
def test_a_shift_of_all_lines_is_found(corpus: tuple[Sides, Sides], offset: int) -> None:
    train, valid = corpus
    shifted = Sides(train.src, [train.tgt[(row + offset) % PAIRS] for row in range(PAIRS)])
    assert faults(shifted, valid) == {"shifted": Fault("shifted", 1.0)}


def test_a_shift_of_some_lines_is_found_there(corpus: tuple[Sides, Sides]) -> None:
    train, valid = corpus
    shifted = Sides(train.src, [*train.tgt[:1000], *train.tgt[1001:1301], train.tgt[1000], *train.tgt[1301:]])
    found = faults(shifted, valid)
    assert set(found) == {"shifted_lines"}
    assert found["shifted_lines"].rows == [*range(1000, 1300)]


def test_the_fraction_of_unrelated_pairs_is_estimated(corpus: tuple[Sides, Sides]) -> None:
    train, valid = corpus
    rng = random.Random(2)
    rows = [row for row in range(PAIRS) if rng.random() < 0.6]
    exchanged = dict(zip(rows, rng.sample(rows, len(rows)), strict=True))
    found = faults(Sides(train.src, [train.tgt[exchanged.get(row, row)] for row in range(PAIRS)]), valid)
    assert set(found) == {"unrelated"}
    assert found["unrelated"].share == pytest.approx(0.6, abs=0.12)


def test_cut_targets_are_not_unrelated(corpus: tuple[Sides, Sides]) -> None:
    train, valid = corpus
    cut = [" ".join(words[: len(words) // 3 + 1]) for words in map(str.split, train.tgt)]
    assert "unrelated" not in faults(Sides(train.src, cut), valid)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("upper_case", str.lower),
        ("punctuation", lambda line: line.replace(" .", ".")),
        ("script", lambda line: "".join(chr(ord("а") + ord(c) % 32) if c.isalpha() else c for c in line)),
    ],
)
def test_a_text_that_is_written_in_another_way_than_the_validation_set(
    corpus: tuple[Sides, Sides], name: str, change: Callable[[str], str]
) -> None:
    train, valid = corpus
    spaced = Sides(valid.src, [line.rstrip(" .") + " ." for line in valid.tgt])
    text = Sides(train.src[:150], [change(line.rstrip(" .") + " .") for line in train.tgt[:150]])
    assert name in faults(text, spaced)


def test_swapped_sides_of_the_validation_set_are_found(corpus: tuple[Sides, Sides]) -> None:
    train, valid = corpus
    assert "swapped_validation" in faults(train, Sides(valid.tgt, valid.src))


def test_a_text_without_a_validation_set(corpus: tuple[Sides, Sides]) -> None:
    assert faults(corpus[0], Sides([], [])) == {}
    assert faults(Sides([], []), Sides([], [])) == {}
