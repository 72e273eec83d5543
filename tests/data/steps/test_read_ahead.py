"""Reading ahead: order, errors, the end of the thread, and what training reports about waiting."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heed.data.datamodule import ReadAhead
from heed.data.steps.stream import StepShard, TrainingStream
from heed.errors import HeedError
from tests.waiting import wait_for

Threads = Callable[[], list[threading.Thread]]


@pytest.fixture
def threads() -> Threads:
    """Return the reading threads that this test has started and that still run.

    Iterations that an earlier test of this process has abandoned may be waiting for the garbage collector.
    """
    others = set(threading.enumerate())
    return lambda: [t for t in threading.enumerate() if t.name.startswith("read-ahead") and t not in others]


def test_all_items_arrive_in_order(threads: Threads) -> None:
    for count in (0, 1, 2, 100):
        reading = ReadAhead(range(count).__iter__, depth=2)
        assert list(reading) == list(reading) == list(range(count))
    assert not threads()


def test_items_are_prepared_while_others_are_used() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    reading = iter(ReadAhead(items, depth=3))
    assert next(reading) == 0
    wait_for(lambda: len(made) >= 4)
    time.sleep(0.05)
    assert made == [0, 1, 2, 3], "three wait"
    assert list(reading) == list(range(1, 10))


def test_an_error_comes_where_its_item_would_be(threads: Threads) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise HeedError("Line 2 is broken.")

    reading = iter(ReadAhead(items, depth=3))
    assert next(reading) == 1
    with pytest.raises(HeedError, match=r"^Line 2 is broken\.$"):
        next(reading)
    assert not threads()


def test_the_thread_ends_with_the_reader(threads: Threads) -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    abandoned = iter(ReadAhead(endless, depth=2))
    next(abandoned)
    assert threads()
    del abandoned
    assert closed.wait(10)
    reading = ReadAhead(endless, depth=2)
    kept = iter(reading)
    next(kept)
    reading.close()
    wait_for(lambda: not threads())


def test_waiting_is_measured() -> None:
    def slow() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.1)
            yield number

    reading = ReadAhead(slow, depth=2)
    assert list(reading) == [0, 1, 2]
    assert 0.25 < reading.wait_seconds < 1
    fast = ReadAhead(range(3).__iter__, depth=2)
    for _ in fast:
        time.sleep(0.1)
    assert fast.wait_seconds < 0.1


@pytest.mark.full
def test_slow_data_shows_in_the_speed_and_in_the_share_of_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: Threads
) -> None:
    from heed.launch import train
    from heed.launch.compose import compose

    shards = TrainingStream.shards

    def slow(stream: TrainingStream, *place: int, **limit: float) -> Iterator[StepShard]:
        for shard in shards(stream, *place, **limit):
            time.sleep(0.5)
            yield shard

    monkeypatch.setattr(TrainingStream, "shards", slow)
    options = [
        "data=synthetic", "data.train=120", "data.valid=8", "data.test=8", "data.long=8", "test=false", "logger=csv",
        "model=rnn", "model.d_embedding=8", "model.d_model=8", "trainer=cpu", "trainer.max_steps=6",
        "trainer.validate_every=6", "trainer.log_every=3", "batching.batch_tokens=200", "callbacks.attention_maps=null",
        "search=greedy", f"cache_dir={tmp_path}/cache",
    ]  # fmt: skip
    start = time.perf_counter()
    results: Any = train(compose(options, folder=tmp_path)).results
    seconds = time.perf_counter() - start
    assert results["data_wait"] > 0.2  # on a busy machine, steps are slow too
    assert results["tokens"] / seconds < results["tokens_per_second"] < results["tokens"] / (6 * 0.5) * 1.2
    assert json.loads((tmp_path / "results.json").read_text())["data_wait"] == results["data_wait"]
    assert not threads()
