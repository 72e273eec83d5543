"""Time and memory of a computation on one core."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fastest_seconds(compute: Callable[[], None]) -> float:
    """Return the seconds of the fastest of 3 to 20 runs, after one run that is not timed."""
    compute()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 0.3 and len(times) < 20):
        start = time.perf_counter()
        compute()
        times.append(time.perf_counter() - start)
        if sum(times) > 10:
            break
    return min(times)


def saved_bytes(forward: Callable[[], Tensor]) -> int:
    """Return the bytes of all distinct tensors that autograd saves for the backward pass of ``forward``."""
    sizes: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        output = forward()  # kept alive while sizes are summed, so that no address is used twice
        total = sum(sizes.values())
    del output
    return total
