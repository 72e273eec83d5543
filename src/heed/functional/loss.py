"""Training losses from the decoder's hidden states, as sums over tokens."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    *,
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed cross-entropy and the negative log-likelihood, summed over N tokens, in nats.

    With ε = ``label_smoothing``, the target distribution gives 1 − ε to the correct token and ε evenly to all V tokens
    (Szegedy et al. 2016, §7; Vaswani et al. 2017, §5.4).

    Args:
        hidden: the decoder's outputs before the output layer.
        weight, bias: the output layer: logits = hidden · weightᵀ + bias.

    Returns:
        The loss, and the negative log-likelihood without gradient.
    """
    log_probs = F.linear(hidden, weight, bias).log_softmax(-1)
    nll = -log_probs.gather(-1, target[:, None]).sum()
    uniform = -log_probs.mean(-1).sum()
    return (1 - label_smoothing) * nll + label_smoothing * uniform, nll.detach()


def r_drop_loss(
    hidden: Float[Tensor, "2 N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    alpha: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return R-Drop's loss of two passes with predictions P and Q, summed over N tokens.

    It is half of Liang et al. 2021, eq. 4; the paper uses α = 5 for translation:

        ½ (CE(P) + CE(Q)) + ½ α · ½ (KL(P ‖ Q) + KL(Q ‖ P)).

    Args:
        hidden: the decoder's outputs of both passes.

    Returns:
        The loss, and the mean negative log-likelihood of both passes without gradient.
    """
    parts = [cross_entropy(each, weight, bias, target, label_smoothing=label_smoothing) for each in hidden]
    loss, nll = (torch.stack(sums).mean(0) for sums in zip(*parts, strict=True))
    log_p, log_q = F.linear(hidden, weight, bias).log_softmax(-1)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
    return loss + alpha / 4 * divergence, nll
