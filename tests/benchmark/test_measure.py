"""Ratios of alternating rounds."""

from benchmark.measure import comparison


def test_ratios_are_taken_within_rounds() -> None:
    # In the second round the machine is half as fast, for both sides.
    found = comparison([30.0, 15.0, 32.0], [20.0, 10.0, 16.0])
    assert found["ratio"] == 1.5
    assert found["ours"] == 30.0
    assert found["spread"]["ratio"] == (1.5, 2.0)
