"""Matrix products, ratios of alternating rounds, and peers that are missing or in processes of their own."""

import os
import subprocess
import sys
import time

import pytest
import torch
from benchmark.matmul import record_products
from benchmark.measure import comparison
from benchmark.peers import UnavailableError, require, start_peers

from heed import compat


def test_products_of_a_linear_layer_with_their_layout() -> None:
    x, weight = torch.randn(3, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    products = record_products(lambda: torch.nn.functional.linear(x, weight).sum().backward())
    # Forward x Wᵀ; backward G W and Gᵀ x.
    assert {(a, b): count for (a, b, *_), count in products.items()} == {
        ((3, 5), (5, 7)): 1,
        ((3, 7), (7, 5)): 1,
        ((7, 3), (3, 5)): 1,
    }


def test_ratios_are_taken_within_rounds() -> None:
    # In the second round the machine is half as fast, for both sides.
    found = comparison([30.0, 15.0, 32.0], [20.0, 10.0, 16.0])
    assert found["ratio"] == 1.5
    assert found["ours"] == 30.0
    assert found["spread"]["ratio"] == (1.5, 2.0)


PARENT = """
import multiprocessing, threading, time
from benchmark.peers import in_new_process
threading.Thread(target=in_new_process, args=(time.sleep, 600)).start()
while not multiprocessing.active_children():
    time.sleep(0.01)
print(multiprocessing.active_children()[0].pid, flush=True)
"""


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


@pytest.mark.slow
@pytest.mark.skipif(compat.WINDOWS, reason="Windows does not say whether a process runs")
def test_the_process_of_a_killed_benchmark_ends() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert compat.is_running(child)
        parent.kill()
    deadline = time.monotonic() + 60
    while compat.is_running(child):
        assert time.monotonic() < deadline, "the process outlived its parent"
        time.sleep(0.1)
