"""Mistakes that the check explains."""


def maximum(step: int, warmup_steps: int, d_model: int) -> float:
    """This is the larger of the two. The smaller one rises linearly during the warm-up, and then decays."""
    return float(d_model**-0.5 * max(step**-0.5, step * warmup_steps**-1.5))


def without_width(step: int, warmup_steps: int, d_model: int) -> float:
    """The factor d_model^(−0.5) is missing: wider models need a smaller learning rate."""
    return float(min(step**-0.5, step * warmup_steps**-1.5))


def never_decays(step: int, warmup_steps: int, d_model: int) -> float:
    """After the warm-up the rate stays at its peak. It must fall with the square root of the step."""
    return float((d_model * warmup_steps) ** -0.5 * min(1.0, step / warmup_steps))
