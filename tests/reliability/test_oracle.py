"""scripts/oracle.py: equal trainings have equal digests, and different ones do not."""

import copy

import oracle
import pytest

pytestmark = pytest.mark.reliability


@pytest.mark.full
def test_digests_depend_on_the_training() -> None:
    first, second, other = (
        oracle.measure(["r-drop-bpe-dropout"], steps=5, seed=seed)["variants"] for seed in (1, 1, 2)
    )
    assert list(oracle.differences(first, second, names={}, exact=True)) == []
    found = list(oracle.differences(first, other, names={}, exact=True))
    for quantity in ("weights", "losses", "metrics.csv", "scores", "greedy", "beam", "log probabilities"):
        assert f"r-drop-bpe-dropout: {quantity} differs" in found


def variants(**parameters: str) -> dict[str, dict[str, object]]:
    """One variant with parameters only, by name and digest."""
    return {"rnn": {"weights": {"digest": "-".join(sorted(parameters.values()))}, "parameters": parameters}}


def test_renamed_parameters_are_equal_and_swapped_ones_differ() -> None:
    before, renamed = variants(a="1", b="2"), variants(c="1", b="2")
    assert list(oracle.differences(before, renamed, names={}, exact=True)) == []
    assert list(oracle.differences(before, renamed, names={"a": "c"}, exact=True)) == []
    swapped = variants(c="2", b="1")
    # As a set the weights are equal; only the names show that two parameters were swapped.
    assert list(oracle.differences(before, swapped, names={"a": "c"}, exact=True)) == [
        "rnn: parameter b differs",
        "rnn: parameter c differs",
    ]
    changed = variants(c="1", b="3")
    assert list(oracle.differences(before, changed, names={}, exact=True)) == ["rnn: weights differs"]


def test_on_another_machine_numbers_are_compared_within_a_tolerance() -> None:
    before = {"rnn": {"losses": {"digest": "1", "numbers": [[2.0, 3.0]]}, "parameters": {}}}
    after = copy.deepcopy(before)
    after["rnn"]["losses"] = {"digest": "2", "numbers": [[2.001, 3.0]]}
    assert list(oracle.differences(before, after, names={}, exact=False)) == []
    after["rnn"]["losses"] = {"digest": "2", "numbers": [[2.5, 3.0]]}
    assert list(oracle.differences(before, after, names={}, exact=False)) == [
        "rnn: losses differs by more than the tolerance"
    ]
