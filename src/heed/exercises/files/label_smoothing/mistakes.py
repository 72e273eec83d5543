"""Mistakes that the check explains."""

from torch import Tensor
from torch.nn.functional import cross_entropy


def others_only(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """ε is shared by the V − 1 wrong tokens. In the paper all V tokens share it, also the correct one."""
    log_p = logits.log_softmax(1)
    correct = log_p.gather(1, target[:, None]).sum()
    return -((1 - epsilon) * correct + epsilon * (log_p.sum() - correct) / (logits.shape[1] - 1))


def mean(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """This is the mean over tokens. Return the sum, which is divided once, by the tokens of the whole step."""
    return cross_entropy(logits, target, label_smoothing=epsilon)


def swapped(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """The weights are swapped: 1 − ε belongs to the correct token, ε to the uniform distribution."""
    return cross_entropy(logits, target, label_smoothing=1 - epsilon, reduction="sum")


def not_smoothed(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """This is the cross-entropy without smoothing."""
    return cross_entropy(logits, target, reduction="sum")


def not_divided(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """Each token gets ε instead of ε/V, so that q sums to more than 1."""
    log_p = logits.log_softmax(1)
    return -((1 - epsilon) * log_p.gather(1, target[:, None]).sum() + epsilon * log_p.sum())
