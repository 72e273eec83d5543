"""Losses as sums over tokens, so that they are divided once, by the tokens of the whole step."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed.symbols import PAD


def cross_entropy(
    logits: Float[Tensor, "*B V"], target: Int[Tensor, "*B"], *, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed over all tokens that are not padding, in nats: the training loss, and the plain negative log-likelihood.

    The training loss takes (1 - ε) from the right token and ε spread evenly over the vocabulary (Szegedy et al. 2016,
    §7; Vaswani et al. 2017, §5.4). The second value carries no gradient.
    """
    loss, nll = _CrossEntropy.apply(logits, target, target != PAD, label_smoothing)  # type: ignore[no-untyped-call]
    return loss, nll


class _CrossEntropy(torch.autograd.Function):
    """Forms the gradient, softmax − (1 − ε) · one-hot − ε / V, along with the loss, in the copy that drops padding.

    Softmax over a vocabulary is dear. Left to autograd, this loss would keep three such matrices and take half as long
    again. It can be differentiated once.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, real: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        kept = logits[real]
        kept = kept.to(torch.promote_types(kept.dtype, torch.float32))
        right = target[real][:, None]
        log_sum = kept.logsumexp(-1, keepdim=True)
        nll = (log_sum - kept.gather(-1, right)).sum()
        evenly = (log_sum - kept.mean(-1, keepdim=True)).sum() if label_smoothing else torch.zeros_like(nll)
        gradient = kept.sub_(log_sum).exp_().sub_(label_smoothing / kept.shape[-1])
        gradient.scatter_add_(-1, right, torch.full_like(log_sum, label_smoothing - 1))
        ctx.save_for_backward(gradient, real)
        ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(nll)
        return (1 - label_smoothing) * nll + label_smoothing * evenly, nll

    @staticmethod
    def backward(ctx: Any, outer: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        gradient, real = ctx.saved_tensors
        into = gradient.new_zeros((*real.shape, gradient.shape[-1]), dtype=ctx.dtype)
        into[real] = gradient.mul_(outer).to(ctx.dtype)
        return into, None, None, None


def r_drop(
    logits: tuple[Float[Tensor, "*B V"], Float[Tensor, "*B V"]],
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
    log_p, log_q = (_log_probs(each, real) for each in logits)
    (loss_p, nll_p), (loss_q, nll_q) = (_cross_entropy(each, target[real], label_smoothing) for each in (log_p, log_q))
    # KL(P ‖ Q) + KL(Q ‖ P) = Σ (P - Q) (log P - log Q)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
    return (loss_p + loss_q + alpha * divergence) / 2, (nll_p + nll_q) / 2


def _log_probs(logits: Float[Tensor, "*B V"], real: Bool[Tensor, "*B"]) -> Float[Tensor, "N V"]:
    # In fp32 or better.
    kept = logits[real]
    return kept.log_softmax(-1, dtype=torch.promote_types(kept.dtype, torch.float32))


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
