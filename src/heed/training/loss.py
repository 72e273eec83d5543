"""Losses as sums over tokens, so that they are divided once, by the tokens of the whole step."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from heed.layers.precision import products_dtype
from heed.models.seq2seq import Unprojected
from heed.symbols import PAD

CHUNK = {"cpu": 2**24, "cuda": 2**28}
"""Bytes of logits at a time: on a CPU about its last cache, on a GPU enough to keep it busy."""


def cross_entropy(
    output: Unprojected, target: Int[Tensor, "*B"], *, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed over all tokens that are not padding, in nats: the training loss, and the plain negative log-likelihood.

    The training loss takes (1 - ε) from the right token and ε spread evenly over the vocabulary (Szegedy et al. 2016,
    §7; Vaswani et al. 2017, §5.4). The second value carries no gradient.
    """
    real = target != PAD
    output = output[real]
    loss, nll = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        output.states, output.table, output.bias, target[real], label_smoothing, torch.is_grad_enabled()
    )
    return loss, nll


class _CrossEntropy(torch.autograd.Function):
    """The output layer and the loss in one, some rows at a time, gradients formed along with the loss.

    With z = h Eᵀ + b, the gradient ∂loss/∂z = softmax(z) − (1 − ε) · one-hot − ε / V is there as soon as z is, and
    meets E and h at once: the logits of a whole batch, the largest matrices of training, never exist. What ε spreads
    evenly is the same for all tokens or all rows, and costs them no pass of their own. It can be differentiated once.

    A probability below the smallest normal number (in fp32 87 nats) counts as that in the loss, not in the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor | None,
        target: Tensor,
        label_smoothing: float,
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
        # Probabilities are rounded for the gradient's products anyway; but in fp16 small ones are none.
        wide = torch.finfo(factors).tiny <= torch.finfo(torch.float32).tiny
        rows = max(1, CHUNK.get(device, CHUNK["cuda"]) // (len(table) * factors.itemsize))
        for start in range(0, len(states), rows):
            some = slice(start, start + rows)
            logits = F.linear(low_states[some], low_table, low_bias)
            probs = logits.softmax(-1, dtype=factors if learning and wide else sums)
            right = torch.arange(len(logits), device=logits.device), target[some]
            right_probs = probs[right].to(sums)
            nll = nll - right_probs.clamp_min(torch.finfo(sums).tiny).log().sum()
            right_logits = right_logits + logits[right].sum(dtype=sums)
            if by_states is not None and by_table is not None:
                gradient = probs.to(factors)
                gradient[right] = (right_probs + (label_smoothing - 1)).to(factors)
                by_states[some] = gradient @ low_table
                by_table += gradient.T @ low_states[some]
                if by_bias is not None:
                    by_bias += gradient.sum(0, dtype=sums)
        loss = (1 - label_smoothing) * nll
        if label_smoothing:
            # Σ −log p of all tokens alike: log Σ exp z, which is the right token's z − log p, less the mean z.
            all_states, all_tokens = low_states.sum(0, dtype=sums), low_table.sum(0, dtype=sums)
            mean_logits = all_states @ all_tokens / len(table)
            if low_bias is not None:
                mean_logits = mean_logits + len(states) * low_bias.mean(dtype=sums)
            loss = loss + label_smoothing * (nll + right_logits - mean_logits)
            share = label_smoothing / len(table)
            if by_states is not None and by_table is not None:
                by_states -= share * all_tokens
                by_table -= share * all_states
            if by_bias is not None:
                by_bias -= share * len(states)
        ctx.save_for_backward(by_states, by_table, by_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, outer: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # In place: a second backward is an error, not a wrong number.
        return (*(None if part is None else part.mul_(outer) for part in ctx.saved_tensors), None, None, None)


def r_drop(
    passes: tuple[Unprojected, Unprojected],
    target: Int[Tensor, "*B"],
    *,
    label_smoothing: float,
    alpha: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The loss of R-Drop, for two passes over one batch under different dropout; else as `cross_entropy`.

    With P and Q the distributions of the two passes, the training loss is half of Liang et al. 2021, eq. 4,

        ½ (CE(P) + CE(Q)) + ½ α · ½ (KL(P ‖ Q) + KL(Q ‖ P)),

    so that α is theirs (they took 5 for translation), and α = 0 the mean of two cross-entropies.
    """
    real = target != PAD
    log_p, log_q = (_log_probs(each[real].logits()) for each in passes)
    (loss_p, nll_p), (loss_q, nll_q) = (_cross_entropy(each, target[real], label_smoothing) for each in (log_p, log_q))
    # KL(P ‖ Q) + KL(Q ‖ P) = Σ (P - Q) (log P - log Q)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
    return (loss_p + loss_q + alpha * divergence) / 2, (nll_p + nll_q) / 2


def _log_probs(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _cross_entropy(
    log_p: Float[Tensor, "N V"], target: Int[Tensor, " N"], label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    nll = -log_p.gather(-1, target[:, None]).sum()
    if not label_smoothing:
        return nll, nll.detach()
    return (1 - label_smoothing) * nll - label_smoothing * log_p.mean(-1).sum(), nll.detach()


def zero_loss(model: torch.nn.Module) -> Float[Tensor, ""]:
    """Zero, through every parameter: what a process backpropagates when a step leaves it no micro-batch."""
    return torch.stack([parameter.sum() * 0 for parameter in model.parameters()]).sum()
