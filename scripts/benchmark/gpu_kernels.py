"""What a GPU may do faster than heed's kernels: attention on packed sequences, and torch's chunked cross-entropy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from heed import kernels
from heed.data.batch import Batch
from heed.functional.masks import Mask

SecondsOf = Callable[[Callable[[], object]], float]
"""Measures the mean seconds of a call."""

WIDTH = 64
"""Dimensions per head of ``transformer_base`` and ``transformer_big``."""


@dataclass(frozen=True)
class AttentionCase:
    """Queries, keys and values in bf16, padded, and which of them are tokens."""

    query: Tensor
    key: Tensor
    value: Tensor
    grad: Tensor
    """Of the result; 0 at padding."""
    query_mask: Tensor
    key_mask: Tensor
    mask: Mask
    """As heed's models pass it: without padding there is none."""

    @classmethod
    def random(cls, query_mask: Tensor, key_mask: Tensor, *, heads: int, causal: bool) -> "AttentionCase":
        """Draw vectors for sequences with these tokens, "B T" and "B S"."""

        def draw(mask: Tensor) -> Tensor:
            rows, length = mask.shape
            return torch.randn(rows, heads, length, WIDTH, device=mask.device).bfloat16()

        grad = draw(query_mask) * query_mask[:, None, :, None]
        query, key, value = (draw(mask).requires_grad_() for mask in (query_mask, key_mask, key_mask))
        mask: Mask = "causal" if causal else None if key_mask.all() else key_mask[:, None, None, :]
        return cls(query, key, value, grad, query_mask, key_mask, mask)

    def padded(self) -> tuple[Tensor, ...]:
        """Return the result of heed's attention and the gradients of queries, keys and values."""
        context, _ = kernels.attend(self.query, self.key, self.value, self.mask, need_weights=False)
        return context, *torch.autograd.grad(context, (self.query, self.key, self.value), self.grad)

    def packer(self) -> Callable[[], tuple[Tensor, ...]]:
        """Return a function that does the same on sequences without padding, "N H E"."""
        query, key, value, grad = (
            x.detach().transpose(1, 2)[mask].contiguous()
            for x, mask in (
                (self.query, self.query_mask),
                (self.key, self.key_mask),
                (self.value, self.key_mask),
                (self.grad, self.query_mask),
            )
        )
        inputs = query.requires_grad_(), key.requires_grad_(), value.requires_grad_()
        starts = _starts(self.query_mask), _starts(self.key_mask)
        longest = self.query_mask.shape[1], self.key_mask.shape[1]
        attend = _varlen if query.is_cuda else _one_by_one

        def packed() -> tuple[Tensor, ...]:
            context = attend(*inputs, starts, longest, causal=isinstance(self.mask, str))
            return context, *torch.autograd.grad(context, inputs, grad)

        return packed

    def difference(self) -> float:
        """Return the largest difference between both results and gradients at tokens."""
        masks = (self.query_mask, self.query_mask, self.key_mask, self.key_mask)
        pairs = zip(self.padded(), self.packer()(), masks, strict=True)
        return max(
            (padded.transpose(1, 2)[mask].float() - packed.float()).abs().max().item() for padded, packed, mask in pairs
        )


def _starts(mask: Tensor) -> Tensor:
    """Return the position of each packed sequence, and the number of tokens at the end."""
    return F.pad(mask.sum(1).cumsum(0), (1, 0)).int()


def _varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: tuple[Tensor, Tensor],
    longest: tuple[int, int],
    *,
    causal: bool,
) -> Tensor:
    window = (-1, 0) if causal else (-1, -1)
    context = varlen_attn(query, key, value, *starts, *longest, window_size=window)
    assert isinstance(context, Tensor)
    return context


def _one_by_one(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: tuple[Tensor, Tensor],
    longest: tuple[int, int],
    *,
    causal: bool,
) -> Tensor:
    """The same as `_varlen`, which has no implementation for CPUs."""
    contexts = []
    for (start, stop), (first, last) in zip(*(pairwise(each.tolist()) for each in starts), strict=True):
        q, k, v = (x.transpose(0, 1) for x in (query[start:stop], key[first:last], value[first:last]))
        contexts.append(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(0, 1))
    return torch.cat(contexts)


def compare_attention(batches: Sequence[Batch], *, heads: int, seconds_of: SecondsOf) -> dict[str, Any]:
    """Measure attention forwards and backwards, padded as in heed and packed, in the seconds of one layer and step."""
    found: dict[str, Any] = {}
    for name in ("encoder", "decoder", "cross"):
        padded = packed = difference = 0.0
        for batch in batches:
            tgt_mask = batch.tgt_out != 0
            query_mask = batch.src_mask if name == "encoder" else tgt_mask
            key_mask = tgt_mask if name == "decoder" else batch.src_mask
            case = AttentionCase.random(query_mask, key_mask, heads=heads, causal=name == "decoder")
            padded += seconds_of(case.padded) / len(batches)
            packed += seconds_of(case.packer()) / len(batches)
            difference = max(difference, case.difference())
        found[name] = {
            "padded_ms": round(1e3 * padded, 3),
            "packed_ms": round(1e3 * packed, 3),
            "packed_over_padded": round(packed / padded, 3),
            "max_difference": round(difference, 5),
        }
    return found


def chunked_cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor, *, label_smoothing: float) -> Tensor:
    """Compute `kernels.cross_entropy` by ``F.linear_cross_entropy`` in chunks, which refuses label smoothing.

    With z = W h, smoothing by ε adds ε Σ (z_target − mean z) to the negative log-likelihood, which needs no logits.
    """
    options = torch.nn.LinearCrossEntropyOptions()
    nll = F.linear_cross_entropy(hidden, weight, target, reduction="sum", options=options)
    target_logits = (hidden * F.embedding(target, weight)).sum(dtype=torch.float32)
    mean_logits = hidden.sum(0, dtype=torch.float32) @ weight.mean(0, dtype=torch.float32)
    return nll + label_smoothing * (target_logits - mean_logits)


def compare_loss(
    *, tokens: int, width: int, vocabulary: int, device: str, dtype: torch.dtype, seconds_of: SecondsOf
) -> dict[str, Any]:
    """Measure the output layer and the loss of a step forwards and backwards: heed's, and torch's chunked one."""
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
