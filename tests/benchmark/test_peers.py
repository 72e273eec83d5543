"""Peers that are missing, and peers in processes of their own."""

import time

import pytest
from benchmark.peers import PeerProcess, UnavailableError, require, start_available


def test_missing_peers_are_named_once_and_the_others_start() -> None:
    def missing() -> str:
        raise UnavailableError("not here")

    started, skipped = start_available({"a fp32": lambda: "A", "b fp32": missing, "b bf16": missing})
    assert started == {"a fp32": "A"}
    assert skipped == {"b": "not here"}


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
def test_peer_process_computes_and_times() -> None:
    peer = PeerProcess(make_square, now=time.perf_counter)
    result, seconds = peer(7)
    peer.close()
    assert result == 49
    assert 0 <= seconds < 10
    assert peer.process.exitcode == 0


@pytest.mark.slow
def test_peer_process_reports_why_a_peer_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="out of order"):
        PeerProcess(make_unavailable, now=time.perf_counter)
