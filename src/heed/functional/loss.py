"""Training losses from the decoder's hidden states, as sums over tokens."""

from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True)
class Consistency:
    """How far the predictions P and Q of two passes must agree: the weights of KL(P ‖ Q) and of KL(Q ‖ P).

    Args:
        supervised: 2: the cross-entropy is the mean of both passes; 1: it is that of the first.
    """

    forward: float
    backward: float
    supervised: Literal[1, 2]

    @classmethod
    def of(cls, *, r_drop: float = 0.0, simcut: float = 0.0) -> "Consistency":
        """Return the weights of one of two losses, or of both together.

        R-Drop with α = ``r_drop`` is half of Liang et al. 2021, eq. 4; the paper uses α = 5 for translation:

            ½ (CE(P) + CE(Q)) + ½ α · ½ (KL(P ‖ Q) + KL(Q ‖ P)).

        SimCut (Gao et al. 2022) with α = ``simcut``, where some tokens are cut out of what the second pass reads; the
        paper uses α = 3:

            CE(P) + α KL(P ‖ Q).

        With both, the loss is that of R-Drop plus the divergence of SimCut: both passes have gold targets.
        """
        return cls(r_drop / 4 + simcut, r_drop / 4, supervised=2 if r_drop else 1)


def two_pass_loss(
    hidden: Float[Tensor, "2 N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    target: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    consistency: Consistency,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the loss of two passes, summed over N tokens, and the mean negative log-likelihood of the supervised ones.

    Args:
        hidden: the decoder's outputs of both passes.
    """
    parts = [
        cross_entropy(each, weight, bias, target, label_smoothing=label_smoothing)
        for each in hidden[: consistency.supervised]
    ]
    loss, nll = (torch.stack(sums).mean(0) for sums in zip(*parts, strict=True))
    log_p, log_q = F.linear(hidden, weight, bias).log_softmax(-1)
    forward, backward = (log_p.exp() * (log_p - log_q)).sum(), (log_q.exp() * (log_q - log_p)).sum()
    return loss + consistency.forward * forward + consistency.backward * backward, nll
