"""Training losses without the logits of the whole batch."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heed import functional
from heed.kernels.choice import is_plain, matmul_dtype

CHUNK_BYTES = {"cpu": 2**24, "cuda": 2**28}
"""Bytes of probabilities per chunk: on a CPU about the size of its last cache, on a GPU enough to keep it busy."""


def cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    *,
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute :func:`heed.functional.cross_entropy` in chunks of rows."""
    if is_plain():
        return functional.cross_entropy(hidden, weight, bias, target, label_smoothing=label_smoothing)
    loss, nll = _SummedLoss.apply(  # type: ignore[no-untyped-call]
        hidden[None], weight, bias, target, label_smoothing, 0.0, torch.is_grad_enabled()
    )
    return loss, nll


def r_drop_loss(
    hidden: Float[Tensor, "2 N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    alpha: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute :func:`heed.functional.r_drop_loss` in chunks of rows."""
    if is_plain():
        return functional.r_drop_loss(hidden, weight, bias, target, label_smoothing=label_smoothing, alpha=alpha)
    loss, nll = _SummedLoss.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, target, label_smoothing, alpha / 2, torch.is_grad_enabled()
    )
    return loss / 2, nll / 2


class _SummedLoss(torch.autograd.Function):
    """The output layer and the loss together, chunk by chunk, with the gradients computed in the forward pass.

    It returns the loss and the negative log-likelihood, summed over P = 1 or 2 passes.

    With z = h Wᵀ + b, the gradient ∂loss/∂z = softmax(z) − (1 − ε) · one-hot − ε / V is known as soon as z is, and is
    multiplied with W and h at once. So the logits of a whole batch never exist. The term ε / V is the same for all
    rows and tokens and is added at the end. The weighted divergence of two passes is added.

    It can be differentiated once. In the loss of training, probabilities are at least the smallest normal number (in
    fp32 a loss of 87 nats), so that nothing waits for the device; the gradient is exact.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "P N D"],
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        target: Int[Tensor, " N"],
        label_smoothing: float,
        divergence_weight: float,
        need_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        low = matmul_dtype(hidden)  # of the products
        high = torch.promote_types(low, torch.float32)  # of the sums
        low_hidden, low_weight = hidden.to(low), weight.to(low)
        low_bias = None if bias is None else bias.to(low)
        hidden_grad = torch.empty_like(hidden) if need_grad else None
        weight_grad = torch.zeros_like(weight, dtype=high) if need_grad else None
        bias_grad = torch.zeros_like(bias, dtype=high) if need_grad and bias is not None else None
        nll, target_logits = hidden.new_zeros((), dtype=high), hidden.new_zeros((), dtype=high)
        divergence = hidden.new_zeros((), dtype=high)
        probs_dtype = _probs_dtype(low, need_grad=need_grad, passes=len(hidden))
        chunk_bytes = CHUNK_BYTES.get(hidden.device.type, CHUNK_BYTES["cuda"])
        rows = max(1, chunk_bytes // (len(weight) * probs_dtype.itemsize))
        for chunk in (slice(start, start + rows) for start in range(0, len(target), rows)):
            at_target = torch.arange(len(target[chunk]), device=target.device), target[chunk]
            logits = [F.linear(h[chunk], low_weight, low_bias) for h in low_hidden]
            probs = [z.softmax(-1, dtype=probs_dtype) for z in logits]
            gradients = probs
            if len(hidden) == 2:
                chunk_divergence, gradients = _divergence(logits, probs, divergence_weight)
                divergence += chunk_divergence
            for index, (z, prob, gradient) in enumerate(zip(logits, probs, gradients, strict=True)):
                log_probs = prob[at_target].to(high).clamp_min(torch.finfo(high).tiny).log()
                if not need_grad and (prob[at_target] < torch.finfo(high).tiny).any():
                    log_probs = z.log_softmax(-1, dtype=high)[at_target]
                nll -= log_probs.sum()
                target_logits += z[at_target].sum(dtype=high)
                if hidden_grad is None or weight_grad is None:
                    continue
                # Subtract before rounding: p − 1 would vanish in a low precision where p is almost 1.
                target_gradients = gradient[at_target].to(high) + (label_smoothing - 1)
                gradient = gradient.to(low)
                gradient[at_target] = target_gradients.to(low)
                hidden_grad[index, chunk] = gradient @ low_weight
                weight_grad += gradient.T @ low_hidden[index, chunk]
                if bias_grad is not None:
                    bias_grad += gradient.sum(0, dtype=high)
        loss = (1 - label_smoothing) * nll + divergence
        if label_smoothing:
            # Σ_v −log p_v / V = log Σ exp z − mean(z), where log Σ exp z = z_target − log p_target.
            tokens = len(hidden) * len(target)
            hidden_sum, weight_sum = low_hidden.sum((0, 1), dtype=high), low_weight.sum(0, dtype=high)
            mean_logits = hidden_sum @ weight_sum / len(weight)
            if low_bias is not None:
                mean_logits = mean_logits + tokens * low_bias.mean(dtype=high)
            loss = loss + label_smoothing * (nll + target_logits - mean_logits)
            uniform = label_smoothing / len(weight)
            if hidden_grad is not None and weight_grad is not None:
                hidden_grad -= uniform * weight_sum
                weight_grad -= uniform * hidden_sum
            if bias_grad is not None:
                bias_grad -= uniform * tokens
        ctx.save_for_backward(hidden_grad, weight_grad, bias_grad)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # In place: torch then refuses a second backward pass, which would give wrong gradients.
        return (*(None if part is None else part.mul_(grad) for part in ctx.saved_tensors), *[None] * 4)


def _probs_dtype(low: torch.dtype, *, need_grad: bool, passes: int) -> torch.dtype:
    """Return the dtype of probabilities: low precision if they are rounded for the gradient's products anyway.

    Not in fp16, which has no small probabilities, nor for two passes, which differ by little.
    """
    has_fp32_range = torch.finfo(low).tiny <= torch.finfo(torch.float32).tiny
    return low if need_grad and has_fp32_range and passes == 1 else torch.promote_types(low, torch.float32)


def _divergence(
    logits: Sequence[Float[Tensor, "N V"]], probs: Sequence[Float[Tensor, "N V"]], weight: float
) -> tuple[Float[Tensor, ""], list[Float[Tensor, "N V"]]]:
    """Return c · (KL(P ‖ Q) + KL(Q ‖ P)), summed, and its gradients by both logits plus those of log Σ exp.

    With d = z_P − z_Q, the divergence is c (E_P[d] − E_Q[d]), with the gradients c (P (1 + d − E_P[d]) − Q) by z_P and
    c (Q (1 + E_Q[d] − d) − P) by z_Q. The gradients of log Σ exp z are P and Q.
    """
    p, q = probs
    difference = (logits[0] - logits[1]).to(p.dtype)
    mean_p, mean_q = ((prob * difference).sum(-1, keepdim=True) for prob in probs)
    gradients = [
        torch.add(1 + weight - weight * mean_p, difference, alpha=weight).mul_(p).sub_(q, alpha=weight),
        torch.add(1 + weight + weight * mean_q, difference, alpha=-weight).mul_(q).sub_(p, alpha=weight),
    ]
    return weight * (mean_p - mean_q).sum(), gradients
