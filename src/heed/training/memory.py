"""Memory: the size of micro-batches that fit on a GPU, and out-of-memory errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import lightning as L
import torch
from torch import Tensor, nn

from heed.data.datamodule import TranslationData
from heed.data.steps.batch import Batch
from heed.errors import HeedError
from heed.symbols import UNK

MEMORY_FRACTION = 0.8
"""The fraction of GPU memory to fill. The rest is for fragmentation and for search, which holds several hypotheses."""


@contextmanager
def explain_out_of_memory(batch: Batch, device_tokens: int) -> Iterator[None]:
    """Turn an out-of-memory error while ``batch`` is processed into a HeedError that says which option to change."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        signs = ("DefaultCPUAllocator: can't allocate memory", "std::bad_alloc")  # of a plain RuntimeError
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and not any(s in str(error) for s in signs):
            raise
        (rows, src), tgt = batch.src.shape, batch.tgt_in.shape[1]
        advice = (
            f"try batching.device_tokens={max(device_tokens // 2, src + tgt)}, which processes the same optimizer step "
            "in smaller micro-batches."
            if rows > 1
            else "choose a smaller model, or drop long pairs in cleaning (data.cleaning.max_chars)."
        )
        raise HeedError(
            f"Out of memory on {batch.src.device} with batching.device_tokens={device_tokens}, at a batch of {rows:,} "
            f"{'pairs' if rows > 1 else 'pair'}, {src} source × {tgt} target tokens: {advice}"
        ) from error


def count_moments(optimizer: torch.optim.Optimizer) -> int:
    """Return how many values an optimizer keeps for each weight: 2 for Adam, 1 for SGD with momentum, else 0."""
    return 2 if "betas" in optimizer.defaults else int(bool(optimizer.defaults.get("momentum")))


def activation_bytes(loss: Callable[[Batch], Tensor], longest: tuple[int, int]) -> float:
    """Return the bytes that the backward pass needs for each token of a micro-batch, for the longest pairs."""
    src, tgt = (torch.full((2, length), UNK, dtype=torch.int32) for length in longest)
    kept: dict[int, Tensor] = {}  # alive until the end, so that no address is used twice

    def keep(tensor: Tensor) -> Tensor:
        return tensor if isinstance(tensor, nn.Parameter) else kept.setdefault(tensor.data_ptr(), tensor)

    with torch.random.fork_rng(devices=[]), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss(Batch.without_padding(src, tgt, tgt))
    return sum(tensor.numel() * tensor.element_size() for tensor in kept.values()) / (2 * sum(longest))


def find_device_tokens(module: L.LightningModule, loss: Callable[[Batch], Tensor], data: TranslationData) -> int:
    """Measure how many tokens a micro-batch may have on this GPU, for ``batching.device_tokens=auto``.

    Computes ``loss`` and its gradient on batches of 1, 2, 4, … pairs of the longest source and the longest target.
    Stops at ``MEMORY_FRACTION`` of the memory, or at the tokens of a process in an average optimizer step: a larger
    micro-batch has no use. Doubling gives the same answer in every run, because the memory that other programs use
    varies by less. All processes return the smallest result among them.

    Returns:
        rows × (source length + target length), with padding.
    """
    device, (src_length, tgt_length) = module.device, data.stream.longest
    # Adam allocates two values per parameter at its first step.
    optimizer_state = sum(2 * p.numel() * p.element_size() for p in module.parameters())

    def fits(rows: int) -> bool:
        """Return whether a forward and backward pass of this many pairs leaves room for the optimizer state."""
        src, tgt = (torch.full((rows, n), UNK, dtype=torch.int32, device=device) for n in (src_length, tgt_length))
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        free, _ = torch.cuda.mem_get_info(device)
        limit = MEMORY_FRACTION * (free + torch.cuda.memory_reserved(device)) - optimizer_state
        with torch.random.fork_rng(devices=[device]):
            try:
                batch = Batch.without_padding(src, tgt, tgt)
                # Any pair's word alignments will do, and there may be fewer pairs than rows.
                torch.autograd.backward(loss(replace(batch, index=torch.zeros_like(batch.index))))
                return torch.cuda.max_memory_allocated(device) <= limit
            except torch.OutOfMemoryError:
                return False
            finally:
                module.zero_grad(set_to_none=True)
                torch.cuda.empty_cache()

    rows, max_tokens = 1, data.stream.step_tokens / module.trainer.world_size
    while rows * (src_length + tgt_length) < max_tokens and fits(2 * rows):
        rows *= 2
    tokens = torch.tensor(rows * (src_length + tgt_length), device=device)
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(tokens, op=torch.distributed.ReduceOp.MIN)
    return int(tokens)
