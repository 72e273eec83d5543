"""Alternatives to heed's kernels on a GPU: attention on packed sequences, and torch's chunked cross-entropy."""

from collections.abc import Callable, Sequence
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


class AttentionCase:
    """Attention forwards and backwards on random vectors in bf16: padded, as in heed, and packed without padding.

    Args:
        query_mask, key_mask: which positions are tokens, "B T" and "B S".
    """

    def __init__(self, query_mask: Tensor, key_mask: Tensor, *, heads: int, causal: bool) -> None:
        self.masks = query_mask, key_mask, key_mask
        # As heed's models pass it: without padding there is none.
        self.mask: Mask = "causal" if causal else None if key_mask.all() else key_mask[:, None, None, :]
        drawn = [
            torch.randn(mask.shape[0], heads, mask.shape[1], WIDTH, device=mask.device).bfloat16()
            for mask in (*self.masks, query_mask)
        ]
        self.inputs = [x.requires_grad_() for x in drawn[:3]]
        self.grad = drawn[3] * query_mask[:, None, :, None]
        self.packed_inputs = [_pack(x.detach(), mask) for x, mask in zip(self.inputs, self.masks, strict=True)]
        self.packed_inputs = [x.requires_grad_() for x in self.packed_inputs]
        self.packed_grad = _pack(self.grad, query_mask)
        self.starts = [F.pad(mask.sum(1).cumsum(0), (1, 0)).int() for mask in (query_mask, key_mask)]

    def padded(self) -> tuple[Tensor, ...]:
        """Return the result and the gradients of queries, keys and values, "B H T E"."""
        query, key, value = self.inputs
        context, _ = kernels.attend(query, key, value, self.mask, need_weights=False)
        return context, *torch.autograd.grad(context, self.inputs, self.grad)

    def packed(self) -> tuple[Tensor, ...]:
        """Return the same of sequences without padding, "N H E"."""
        attend = self._varlen if self.grad.is_cuda else self._one_by_one
        context = attend(*self.packed_inputs)
        return context, *torch.autograd.grad(context, self.packed_inputs, self.packed_grad)

    def _varlen(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        (query_starts, key_starts), (longest, longest_key, _) = self.starts, (mask.shape[1] for mask in self.masks)
        window = (-1, 0) if isinstance(self.mask, str) else (-1, -1)
        context = varlen_attn(query, key, value, query_starts, key_starts, longest, longest_key, window_size=window)
        assert isinstance(context, Tensor)
        return context

    def _one_by_one(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Compute the same as `_varlen`, which has no CPU implementation."""
        contexts = []
        for (start, stop), (first, last) in zip(*(pairwise(each.tolist()) for each in self.starts), strict=True):
            q, k, v = (x.transpose(0, 1) for x in (query[start:stop], key[first:last], value[first:last]))
            is_causal = isinstance(self.mask, str)
            contexts.append(F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(0, 1))
        return torch.cat(contexts)

    def difference(self) -> float:
        """Return the largest difference between both results and gradients at tokens."""
        trios = zip(self.padded(), self.packed(), (self.masks[0], *self.masks), strict=True)
        return max((_pack(padded, mask).float() - packed.float()).abs().max().item() for padded, packed, mask in trios)


def _pack(x: Tensor, mask: Tensor) -> Tensor:
    """Return the tokens of "B H T E" as "N H E"."""
    return x.transpose(1, 2)[mask].contiguous()


def compare_attention(batches: Sequence[Batch], *, heads: int, seconds_of: SecondsOf) -> dict[str, Any]:
    """Measure attention forwards and backwards, padded as in heed and packed, in the seconds of one layer and step."""
    found: dict[str, Any] = {}
    for name in ("encoder", "decoder", "cross"):
        padded = packed = difference = 0.0
        for batch in batches:
            tgt_mask = batch.tgt_out != 0
            query_mask = batch.src_mask if name == "encoder" else tgt_mask
            key_mask = tgt_mask if name == "decoder" else batch.src_mask
            case = AttentionCase(query_mask, key_mask, heads=heads, causal=name == "decoder")
            padded += seconds_of(case.padded) / len(batches)
            packed += seconds_of(case.packed) / len(batches)
            difference = max(difference, case.difference())
        found[name] = {
            "padded_ms": round(1e3 * padded, 3),
            "packed_ms": round(1e3 * packed, 3),
            "packed_over_padded": round(packed / padded, 3),
            "max_difference": round(difference, 5),
        }
    return found


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
