"""The thread that translates the sentences of concurrent requests together."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from heed.errors import HeedError
from heed.inference.outputs import Translation
from heed.serve.errors import ApiError
from heed.serve.worker import Key, Worker, fit


class Upper:
    """Translates into upper case. It waits for permission, and records its batches. A token is a character."""

    batch_tokens = 100
    tokenizer = SimpleNamespace(encode_src=lambda sentences: [list(each) for each in sentences])

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.started = threading.Event()
        self.may_go_on = threading.Event()

    def hypotheses(self, sentences: Sequence[str], *, n: int, **_: Any) -> list[list[Translation]]:
        self.batches.append(list(sentences))
        self.started.set()
        assert self.may_go_on.wait(10)
        if "bad" in sentences:
            raise HeedError("A bad sentence.")
        return [[Translation(each.upper(), 0.0, 0.0, finished=True)] * n for each in sentences]


@pytest.fixture
def upper() -> Upper:
    return Upper()


@pytest.fixture
def worker() -> Iterator[Worker]:
    running = Worker("test", batch_sentences=4, max_waiting=20)
    yield running
    running.stop()


async def submit(worker: Worker, upper: Any, *requests: Sequence[str]) -> list[Any]:
    """Submit requests while a first one is translated; return the results of all."""
    first = asyncio.create_task(worker.translate(["first"], Key(upper)))
    await asyncio.to_thread(upper.started.wait, 10)
    rest = [asyncio.create_task(worker.translate(request, Key(upper))) for request in requests]
    await asyncio.sleep(0.01)
    upper.may_go_on.set()
    results = await asyncio.gather(first, *rest, return_exceptions=True)
    return [
        result if isinstance(result, BaseException) else [n_best[0].text for n_best in result] for result in results
    ]


def test_requests_that_wait_share_batches_and_get_their_own_answers(worker: Worker, upper: Upper) -> None:
    results = asyncio.run(submit(worker, upper, ["a", "b"], ["c"], [], ["d"]))
    assert results == [["FIRST"], ["A", "B"], ["C"], [], ["D"]]
    assert upper.batches == [["first"], ["a", "b", "c", "d"]]
    assert worker.waiting == 0


def test_a_short_request_does_not_wait_for_a_long_one(worker: Worker, upper: Upper) -> None:
    results = asyncio.run(submit(worker, upper, list("abcdefgh"), ["x"]))
    assert results[1:] == [list("ABCDEFGH"), ["X"]]
    assert "x" in upper.batches[1]
    assert all(len(batch) <= 4 for batch in upper.batches)


def test_a_short_request_does_not_wait_for_many_long_sentences(worker: Worker, upper: Upper) -> None:
    long = ["a" * 70, "b" * 70, "c" * 200]
    results = asyncio.run(submit(worker, upper, long, ["x"]))
    assert results[1:] == [[each.upper() for each in long], ["X"]]
    assert upper.batches[1:] == [["a" * 70, "x"], ["b" * 70], ["c" * 200]]


def test_only_the_request_at_fault_fails(worker: Worker, upper: Upper) -> None:
    first, good, bad, other = asyncio.run(submit(worker, upper, ["a"], ["bad"], ["b"]))
    assert (first, good, other) == (["FIRST"], ["A"], ["B"])
    assert isinstance(bad, HeedError)


def test_too_many_sentences_are_refused(worker: Worker, upper: Upper) -> None:
    results = asyncio.run(submit(worker, upper, ["a"] * 19, ["b"]))
    assert results[1] == ["A"] * 19
    assert isinstance(results[2], ApiError)
    assert results[2].status_code == 429


def test_a_cancelled_request_is_not_translated(worker: Worker, upper: Upper) -> None:
    async def cancel_second() -> None:
        first = asyncio.create_task(worker.translate(["first"], Key(upper)))  # type: ignore[arg-type]
        await asyncio.to_thread(upper.started.wait, 10)
        second = asyncio.create_task(worker.translate(["second"], Key(upper)))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.sleep(0.01)
        upper.may_go_on.set()
        await first
        await worker.translate(["third"], Key(upper))  # type: ignore[arg-type]

    asyncio.run(cancel_second())
    assert upper.batches == [["first"], ["third"]]
    assert worker.waiting == 0


def test_other_uses_of_the_model_run_in_the_same_thread(worker: Worker) -> None:
    assert asyncio.run(worker.call(lambda: threading.current_thread().name)).startswith("heed-test")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(worker.call(lambda: 1 // 0))


def test_stopping_finishes_what_was_accepted(upper: Upper) -> None:
    worker = Worker("test", batch_sentences=1, max_waiting=20)

    async def stop_early() -> list[Any]:
        accepted = [asyncio.create_task(worker.translate([each], Key(upper))) for each in "abc"]  # type: ignore[arg-type]
        await asyncio.to_thread(upper.started.wait, 10)
        stopping = asyncio.create_task(asyncio.to_thread(worker.stop))
        await asyncio.sleep(0.05)
        upper.may_go_on.set()
        await stopping
        return [n_best[0].text for each in accepted for n_best in await each]

    assert asyncio.run(stop_early()) == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("sentences", "waiting", "counts"),
    [(4, [1, 1], [1, 1]), (4, [10, 1], [3, 1]), (4, [10, 10], [2, 2]), (2, [5, 5, 5], [1, 1, 0]), (5, [0, 9], [0, 5])],
)
def test_the_sentences_of_a_round_are_divided_evenly(sentences: int, waiting: list[int], counts: list[int]) -> None:
    assert fit([[1] * count for count in waiting], sentences=sentences, tokens=100) == counts


@pytest.mark.parametrize(
    ("lengths", "counts"),
    [
        ([[3, 3], [3, 3]], [2, 1]),
        ([[3, 9], [3, 3]], [1, 1]),
        ([[99, 1], [1]], [1, 0]),
        ([[], [1, 1, 1]], [0, 3]),
        ([[]], [0]),
    ],
)
def test_a_round_has_a_number_of_tokens(lengths: list[list[int]], counts: list[int]) -> None:
    assert fit(lengths, sentences=100, tokens=10) == counts
