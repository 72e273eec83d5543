"""Mistakes that the check explains."""


def by_length(log_prob: float, length: int, alpha: float) -> float:
    """log p is divided by length^alpha. In the paper it is divided by ((5 + length) / 6)^alpha."""
    return float(log_prob / length**alpha)


def multiplied(log_prob: float, length: int, alpha: float) -> float:
    """log p is multiplied by the penalty. log p is negative, so this favours short translations: divide."""
    return float(log_prob * ((5 + length) / 6) ** alpha)


def five_outside(log_prob: float, length: int, alpha: float) -> float:
    """The exponent must be applied to the fraction (5 + length) / 6 as a whole."""
    return float(log_prob / ((5 + length) ** alpha / 6))
