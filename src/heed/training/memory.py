"""How much fits on a device, and what is said when it was too much."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from heed.data.batch import Batch
from heed.errors import HeedError
from heed.symbols import UNK

if TYPE_CHECKING:
    from heed.training.module import TranslationModule

FILL = 0.8
"""Of the memory: the rest is for fragments, and for a search, which holds several hypotheses a sentence."""


@contextmanager
def out_of_memory_explained(batch: Batch, device_tokens: int) -> Iterator[None]:
    """Makes memory running out inside the block a HeedError that names what to change."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        (rows, src), tgt = batch.src.shape, batch.tgt_in.shape[1]
        advice = (
            f"try batching.device_tokens={max(device_tokens // 2, src + tgt)}: a step is the same, in smaller portions."
            if rows > 1
            else "choose a smaller model, or let cleaning drop long pairs (data.cleaning.max_chars)."
        )
        raise HeedError(
            f"Out of memory on {batch.src.device} with batching.device_tokens={device_tokens}, at a batch of {rows:,} "
            f"{'pairs' if rows > 1 else 'pair'}, {src} source × {tgt} target tokens: {advice}"
        ) from error


def _is_out_of_memory(error: BaseException) -> bool:
    # A CPU's allocator raises a plain RuntimeError.
    signs = ("DefaultCPUAllocator: can't allocate memory", "std::bad_alloc")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(sign in str(error) for sign in signs)


def find_device_tokens(module: "TranslationModule") -> int:
    """``batching.device_tokens`` for this model, data and device: on a GPU as much as its memory holds.

    1, 2, 4, … copies of a pair as long as the longest source and the longest target are tried, forward and backward,
    until ``FILL`` of the memory is taken or one step's tokens are evenly divided among the processes, which agree on
    the least. Doubling makes the answer the same from run to run: the noise of other programs is far smaller.

    On a CPU, where its caches decide and a measurement would be noise, it is the planner's own number.
    """
    data, trainer = module.data, module.trainer
    if module.device.type != "cuda":
        return data.planner.device_tokens
    train = data.splits["train"]
    src, tgt = int(train.src.lengths.max()) + 1, int(train.tgt.lengths.max()) + 1
    enough = data.step_tokens / trainer.world_size
    rows = 1
    while rows * (src + tgt) < enough and _fits(module, 2 * rows, src, tgt):
        rows *= 2
    tokens = torch.tensor(rows * (src + tgt), device=module.device)
    if trainer.world_size > 1:
        torch.distributed.all_reduce(tokens, op=torch.distributed.ReduceOp.MIN)
    return int(tokens)


def _fits(module: "TranslationModule", rows: int, src: int, tgt: int) -> bool:
    """Whether a batch of this size leaves enough memory free when all its gradients are there."""
    device = module.device
    # Adam's two numbers a weight come with the first step.
    optimizer_state = sum(2 * p.numel() * p.element_size() for p in module.parameters())
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    free, _ = torch.cuda.mem_get_info(device)
    limit = FILL * (free + torch.cuda.memory_reserved(device)) - optimizer_state
    with torch.random.fork_rng(devices=[device]):
        try:
            torch.autograd.backward(_loss(module, rows, src, tgt))
            return torch.cuda.max_memory_allocated(device) <= limit
        except torch.OutOfMemoryError:
            return False
        finally:
            module.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()


def _loss(module: "TranslationModule", rows: int, src: int, tgt: int) -> Tensor:
    source, target = (torch.full((rows, length), UNK, device=module.device) for length in (src, tgt))
    with module.trainer.precision_plugin.train_step_context():
        mask = torch.ones_like(source, dtype=torch.bool)
        summed, _ = module.summed_loss(Batch(source, mask, target, target, index=torch.arange(rows)))
    return summed
