"""Peers that are missing, and peers in processes of their own."""

import time

import pytest
from benchmark.peers import UnavailableError, require, start_peers


def test_require_names_the_package() -> None:
    with pytest.raises(UnavailableError, match="no_such_package_here is not installed"):
        require("no_such_package_here")


def make_square() -> "Square":
    return Square()


def make_unavailable() -> "Square":
    raise UnavailableError("out of order")


class Square:
    def __call__(self, number: int) -> int:
        return number * number


@pytest.mark.slow
def test_available_peers_compute_in_timed_processes_and_the_others_are_named_once() -> None:
    makers = {"a fp32": make_square, "b fp32": make_unavailable, "b bf16": make_unavailable}
    started, skipped = start_peers(makers, now=time.perf_counter)
    result, seconds = started["a fp32"](7)
    started["a fp32"].close()
    assert list(started) == ["a fp32"]
    assert result == 49
    assert 0 <= seconds < 10
    assert skipped == {"b": "out of order"}
