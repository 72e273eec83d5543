"""Length penalty of beam search (Wu et al. 2016, eq. 14)."""


def length_penalty(log_prob: float, length: int, alpha: float) -> float:
    """Return the score by which finished translations are ranked: log p / lp, lp = ((5 + length) / 6)^alpha.

    Args:
        log_prob: log p of the translation, at most 0.
        length: the number of its tokens, EOS included.
        alpha: 0 ranks by log p, which favours short translations; larger values favour longer ones.
    """
    return float(log_prob / ((5 + length) / 6) ** alpha)
