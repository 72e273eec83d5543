"""Learning rate with warm-up (Vaswani et al. 2017, eq. 3)."""


def warmup_schedule(step: int, warmup_steps: int, d_model: int) -> float:
    """Return the learning rate d_model^(−0.5) · min(step^(−0.5), step · warmup_steps^(−1.5)).

    Args:
        step: the number of the optimizer step, from 1 on.
        warmup_steps: the step with the highest learning rate.
        d_model: the width of the model.
    """
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
