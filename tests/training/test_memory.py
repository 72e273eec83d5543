"""Out-of-memory errors name an option to change, and following the advice leads to a run that fits."""

import random
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from heed.data.steps.batch import Batch
from heed.data.steps.steps import CPU_TOKENS
from heed.errors import HeedError
from heed.training.memory import explain_out_of_memory

MB = 2**20

# One wide layer: 1,000 tokens take 120 MB, and the weights little.
WIDE = ["data=files", "data.cleaning.drop_leaked=false", "model=transformer", "model.d_model=4", "model.num_heads=1",
        "model.d_ff=30000", "model.encoder_layers=1", "model.decoder_layers=1", "trainer=cpu",
        "trainer.max_epochs=null", "trainer.max_steps=1", "callbacks.attention_maps=null", "search=greedy",
        "search.max_length_factor=0.1", "weights=last", "batching.batch_tokens=100000"]  # fmt: skip


@contextmanager
def limited_growth(size: int) -> Iterator[None]:
    """Limit this process to ``size`` more bytes of address space."""
    # heed.kernels.choice has reserved this much, which would be used first. Untouched pages take no memory.
    reserved = torch.empty(2048 * MB, dtype=torch.uint8)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        del reserved


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    """150 pairs of about 30 tokens to train on, and one to validate and test on."""
    rng = random.Random(5)
    lines = [" ".join(rng.choices("abcdefghij", k=rng.randint(25, 30))) for _ in range(150)]
    for name, count in (("train", 150), ("one", 1)):
        for side in ("xx", "yy"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines[:count]))
    train, one = (f"[['{tmp_path}/{name}.xx','{tmp_path}/{name}.yy']]" for name in ("train", "one"))
    return [*WIDE, f"data.train={train}", f"data.valid={one}", f"data.test={one}"]


def batch(rows: int, src: int = 5, tgt: int = 7) -> Batch:
    source, target = (torch.ones(rows, length, dtype=torch.int64) for length in (src, tgt))
    return Batch.without_padding(source, target, target)


@pytest.mark.full
def test_following_the_advice_ends_in_a_run_that_fits(run: Callable[..., Path], settings: list[str]) -> None:
    run("imports", *settings, "batching.device_tokens=200", "model.d_ff=8")  # imports take memory too
    tokens, tried = 16384, []
    while True:
        try:
            with limited_growth(400 * MB):
                run(f"tokens-{tokens}", *settings, f"batching.device_tokens={tokens}")
            break
        except HeedError as error:
            message = str(error)
        tried.append(tokens)
        assert f"Out of memory on cpu with batching.device_tokens={tokens}, at a batch of " in message
        advice = re.search(r"try batching\.device_tokens=(\d+)", message)
        assert advice
        assert int(advice[1]) < tokens
        tokens = int(advice[1])
    assert tried


def test_a_single_pair_that_does_not_fit_gets_other_advice() -> None:
    with (
        pytest.raises(HeedError, match=r"1 pair, 5 source × 7 target tokens: choose a smaller model, or .*max_chars"),
        limited_growth(100 * MB),
        explain_out_of_memory(batch(1), 64),
    ):
        torch.empty(64_000 * MB)  # more than this process has freed and could reuse


def test_the_advice_is_at_least_the_length_of_the_longest_pair() -> None:
    with (
        pytest.raises(HeedError, match=r"3 pairs, 5 source × 7 target tokens: try batching.device_tokens=12,"),
        limited_growth(100 * MB),
        explain_out_of_memory(batch(3), 20),
    ):
        bytearray(64_000 * MB)


def test_other_errors_are_not_changed() -> None:
    with pytest.raises(RuntimeError, match="must match the size"), explain_out_of_memory(batch(3), 20):
        torch.ones(2) + torch.ones(3)
    with explain_out_of_memory(batch(3), 20):
        torch.empty(10 * MB)


@pytest.mark.full
def test_auto_on_a_cpu_is_the_constant(run: Callable[..., Path], settings: list[str]) -> None:
    small = [*settings, "model.d_ff=8", "batching.batch_tokens=900"]
    auto, number = (run(str(tokens), *small, f"batching.device_tokens={tokens}") for tokens in ("auto", CPU_TOKENS))
    assert (auto / "metrics.csv").read_bytes() == (number / "metrics.csv").read_bytes()
    assert "device_tokens: auto" in (auto / "config.yaml").read_text()
