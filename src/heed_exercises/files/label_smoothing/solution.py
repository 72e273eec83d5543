"""Label-smoothed cross-entropy (Szegedy et al. 2016, §7)."""

from torch import Tensor


def label_smoothing(logits: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """Return the cross-entropy −Σₙ Σᵥ qₙ(v) log pₙ(v), summed over N tokens, with p = softmax of the logits.

    The target distribution q gives 1 − ε to the correct token and, besides, ε/V to each of the V tokens, also to the
    correct one. Vaswani et al. 2017, §5.4, use ε = 0.1.

    Args:
        logits: shape (N, V).
        target: the correct tokens, shape (N,).
        epsilon: ε, from 0 to 1.

    Returns:
        The loss in nats, a tensor without axes.
    """
    log_p = logits.log_softmax(1)
    correct = log_p.gather(1, target[:, None]).sum()
    return -((1 - epsilon) * correct + epsilon * log_p.mean(1).sum())
