"""Losses as sums over tokens, so that they are divided once, by the tokens of the whole step."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heed.functional.precision import products_dtype
from heed.models.seq2seq import DecoderHidden
from heed.symbols import PAD

CHUNK = {"cpu": 2**24, "cuda": 2**28}
"""Bytes of probabilities at a time: on a CPU about its last cache, on a GPU enough to keep it busy."""


def cross_entropy(
    output: DecoderHidden, target: Int[Tensor, "*B"], *, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed over all tokens that are not padding, in nats: the training loss, and the plain negative log-likelihood.

    The training loss takes (1 - ε) from the right token and ε spread evenly over the vocabulary (Szegedy et al. 2016,
    §7; Vaswani et al. 2017, §5.4). The second value carries no gradient.
    """
    return _mean_loss([output], target, label_smoothing, alpha=0.0)


def r_drop(
    passes: tuple[DecoderHidden, DecoderHidden],
    target: Int[Tensor, "*B"],
    *,
    label_smoothing: float,
    alpha: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The loss of R-Drop, for two passes over one batch under different dropout; else as `cross_entropy`.

    With P and Q the distributions of the two passes, the training loss is half of Liang et al. 2021, eq. 4,

        ½ (CE(P) + CE(Q)) + ½ α · ½ (KL(P ‖ Q) + KL(Q ‖ P)),

    so that α is theirs (they took 5 for translation), and α = 0 the mean of two cross-entropies. Both passes are of one
    output layer.
    """
    return _mean_loss(passes, target, label_smoothing, alpha)


def _mean_loss(
    passes: Sequence[DecoderHidden], target: Int[Tensor, "*B"], label_smoothing: float, alpha: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Of one pass or two."""
    real = target != PAD
    states = torch.stack([each[real].states for each in passes])
    loss, nll = _SummedLoss.apply(  # type: ignore[no-untyped-call]
        states, passes[0].table, passes[0].bias, target[real], label_smoothing, alpha, torch.is_grad_enabled()
    )
    return loss / len(passes), nll / len(passes)


class _SummedLoss(torch.autograd.Function):
    """The output layer and the loss in one, some rows at a time, gradients formed along with the loss.

    With z = h Eᵀ + b, the gradient ∂loss/∂z = softmax(z) − (1 − ε) · one-hot − ε / V is there as soon as z is, and
    meets E and h at once: the logits of a whole batch, the largest matrices of training, never exist. What ε spreads
    evenly is the same for all tokens or all rows, and costs them no pass of their own. The losses of two passes are
    added, and α/2 times what `_divergence` says of them. It can be differentiated once.

    A probability below the smallest normal number (in fp32 87 nats) counts as that in the loss, not in the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "P N D"],
        table: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        target: Int[Tensor, " N"],
        label_smoothing: float,
        alpha: float,
        learning: bool,
    ) -> tuple[Tensor, Tensor]:
        device = states.device.type
        factors = products_dtype(states)
        sums = torch.promote_types(factors, torch.float32)
        low_states, low_table = states.to(factors), table.to(factors)
        low_bias = None if bias is None else bias.to(factors)
        by_states = torch.empty_like(states) if learning else None
        by_table = torch.zeros_like(table, dtype=sums) if learning else None
        by_bias = torch.zeros_like(bias, dtype=sums) if learning and bias is not None else None
        nll, right_logits = states.new_zeros((), dtype=sums), states.new_zeros((), dtype=sums)
        divergence = states.new_zeros((), dtype=sums)
        tokens = len(states) * len(target)
        # Probabilities are rounded for the gradient's products anyway; but in fp16 small ones are none, and two passes
        # differ by little.
        alone = len(states) == 1
        wide = torch.finfo(factors).tiny <= torch.finfo(torch.float32).tiny
        probs_dtype = factors if learning and wide and alone else sums
        rows = max(1, CHUNK.get(device, CHUNK["cuda"]) // (len(table) * probs_dtype.itemsize))
        for start in range(0, len(target), rows):
            some = slice(start, start + rows)
            right = torch.arange(len(target[some]), device=target.device), target[some]
            logits = [F.linear(each[some], low_table, low_bias) for each in low_states]
            probs = [each.softmax(-1, dtype=probs_dtype) for each in logits]
            gradients = probs
            if not alone:
                apart, gradients = _divergence(logits, probs, alpha / 2)
                divergence += apart
            for index, (each, prob, gradient) in enumerate(zip(logits, probs, gradients, strict=True)):
                right_probs = prob[right].to(sums)
                nll -= right_probs.clamp_min(torch.finfo(sums).tiny).log().sum()
                right_logits += each[right].sum(dtype=sums)
                if by_states is None or by_table is None:
                    continue
                # Where p is almost 1, p − 1 is what rounding would take away: first the difference.
                right_gradients = gradient[right].to(sums) + (label_smoothing - 1)
                gradient = gradient.to(factors)
                gradient[right] = right_gradients.to(factors)
                by_states[index, some] = gradient @ low_table
                by_table += gradient.T @ low_states[index, some]
                if by_bias is not None:
                    by_bias += gradient.sum(0, dtype=sums)
        loss = (1 - label_smoothing) * nll + divergence
        if label_smoothing:
            # Σ −log p of all tokens alike: log Σ exp z, which is the right token's z − log p, less the mean z.
            all_states, all_tokens = low_states.sum((0, 1), dtype=sums), low_table.sum(0, dtype=sums)
            mean_logits = all_states @ all_tokens / len(table)
            if low_bias is not None:
                mean_logits = mean_logits + tokens * low_bias.mean(dtype=sums)
            loss = loss + label_smoothing * (nll + right_logits - mean_logits)
            share = label_smoothing / len(table)
            if by_states is not None and by_table is not None:
                by_states -= share * all_tokens
                by_table -= share * all_states
            if by_bias is not None:
                by_bias -= share * tokens
        ctx.save_for_backward(by_states, by_table, by_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, outer: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # In place: a second backward is an error, not a wrong number.
        return (*(None if part is None else part.mul_(outer) for part in ctx.saved_tensors), None, None, None, None)


def _divergence(
    logits: Sequence[Float[Tensor, "N V"]], probs: Sequence[Float[Tensor, "N V"]], weight: float
) -> tuple[Float[Tensor, ""], list[Float[Tensor, "N V"]]]:
    """``weight`` × (KL(P ‖ Q) + KL(Q ‖ P)), summed, and its gradients by both logits, P and Q added to them.

    With d = z_P − z_Q, log P − log Q is d and a number that a row's tokens share. It cancels, and what is left are
    E_P[d] − E_Q[d], with the gradients P (d − E_P[d]) + P − Q and Q (E_Q[d] − d) + Q − P.
    """
    p, q = probs
    difference = (logits[0] - logits[1]).to(p.dtype)
    mean_p, mean_q = ((each * difference).sum(-1, keepdim=True) for each in probs)
    by_logits = [
        torch.add(1 + weight - pull * mean, difference, alpha=pull).mul_(own).sub_(other, alpha=weight)
        for pull, mean, own, other in ((weight, mean_p, p, q), (-weight, mean_q, q, p))
    ]
    return weight * (mean_p - mean_q).sum(), by_logits


def zero_loss(model: torch.nn.Module) -> Float[Tensor, ""]:
    """Zero, through every parameter: what a process backpropagates when a step leaves it no micro-batch."""
    return torch.stack([parameter.sum() * 0 for parameter in model.parameters()]).sum()
