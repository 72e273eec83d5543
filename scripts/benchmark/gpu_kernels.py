"""An alternative to heed's kernels on a GPU: torch's chunked cross-entropy."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmark.peers import UnavailableError
from heed import kernels

SecondsOf = Callable[[Callable[[], object]], float]
"""Measures the mean seconds of a call."""


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor, *, label_smoothing: float) -> Tensor:
    """Compute `kernels.cross_entropy` by ``F.linear_cross_entropy`` in chunks.

    The function refuses label smoothing. With z = W h, smoothing by ε adds ε Σ (z_target − mean z) to the negative
    log-likelihood. This term needs no logits.
    """
    options = torch.nn.LinearCrossEntropyOptions()
    nll = F.linear_cross_entropy(hidden, weight, target, reduction="sum", options=options)
    target_logits = (hidden * F.embedding(target, weight)).sum(dtype=torch.float32)
    mean_logits = hidden.sum(0, dtype=torch.float32) @ weight.mean(0, dtype=torch.float32)
    return nll + label_smoothing * (target_logits - mean_logits)


def compare_loss(
    *, tokens: int, width: int, vocabulary: int, device: str, dtype: torch.dtype, seconds_of: SecondsOf
) -> dict[str, Any]:
    """Measure the output layer and the loss of a step forwards and backwards: heed's, and torch's chunked one.

    Raises:
        UnavailableError: if this version of torch has no chunked loss.
    """
    if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        raise UnavailableError(f"torch {torch.__version__} has no F.linear_cross_entropy")
    torch.manual_seed(1)
    hidden = torch.randn(tokens, width, device=device, requires_grad=True)
    weight = (torch.randn(vocabulary, width, device=device) * width**-0.5).requires_grad_()
    target = torch.randint(vocabulary, (tokens,), device=device)

    def heed() -> Tensor:
        return kernels.cross_entropy(hidden, weight, None, target, label_smoothing=0.1)[0]

    def chunked() -> Tensor:
        return chunked_cross_entropy(hidden.to(dtype), weight.to(dtype), target, label_smoothing=0.1)

    def gradients(loss_of: Callable[[], Tensor]) -> tuple[Tensor, ...]:
        with torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32):
            loss = loss_of()
        return loss.detach(), *torch.autograd.grad(loss, (hidden, weight))

    found: dict[str, Any] = {}
    results = {}
    for name, loss_of in {"heed": heed, "linear_cross_entropy": chunked}.items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if device == "cuda" else 0
        found[name] = {"ms": round(1e3 * seconds_of(lambda loss_of=loss_of: gradients(loss_of)), 3)}  # type: ignore[misc]
        if device == "cuda":
            found[name]["memory_gib"] = round((torch.cuda.max_memory_allocated() - before) / 2**30, 2)
        results[name] = gradients(loss_of)
    found["max_relative_difference"] = max(
        round(float((ours - theirs).abs().max() / ours.abs().max()), 6)
        for ours, theirs in zip(results["heed"], results["linear_cross_entropy"], strict=True)
    )
    return found
