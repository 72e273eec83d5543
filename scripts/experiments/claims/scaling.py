"""Claim: dividing scores by √d_k keeps the softmax from saturating."""

import torch
from markupsafe import Markup
from torch import Tensor

from experiments.aggregate import format_mean, mean_and_sd
from experiments.claim import Claim, Finding
from experiments.plots import Line, caption, line_plot
from experiments.runner import ExperimentRunner
from experiments.small_models import TRANSFORMER, small
from heed.functional import attend

WIDTHS = (1, 4, 16, 64, 256, 1024)
KEYS = 32
DRAWS = 2000

UNSCALED = small("transformer", "transformer-unscaled", "model.self_attention.scaled=false")


def softmax_of_scores(width: int, *, scaled: bool) -> dict[str, float]:
    """Return the variance of the scores, and the mean entropy (nats) and Jacobian norm of their softmax.

    Queries and keys have independent entries of mean 0 and variance 1.
    """
    generator = torch.Generator().manual_seed(width)
    query, key = (torch.randn(DRAWS, length, width, generator=generator, dtype=torch.float64) for length in (1, KEYS))
    mask = torch.ones(1, 1, KEYS, dtype=torch.bool)
    weights = attend(query, key, key, mask, scaled=scaled)[1]
    assert weights is not None
    weights = weights.squeeze(1)
    scores = (query @ key.transpose(1, 2)).squeeze(1) * (width**-0.5 if scaled else 1.0)
    return {
        "variance": float(scores.var()),
        "entropy": float(-torch.xlogy(weights, weights).sum(1).mean()),
        "gradient": float(jacobian_norm(weights).mean()),
    }


def jacobian_norm(weights: Tensor) -> Tensor:
    """Frobenius norm of the Jacobian of p = softmax(s), diag(p) − p pᵀ: √(Σp² − 2Σp³ + (Σp²)²).

    Args:
        weights: p, "N K".

    Returns:
        "N".
    """
    squares, cubes = weights.pow(2).sum(1), weights.pow(3).sum(1)
    return (squares - 2 * cubes + squares**2).clamp_min(0).sqrt()


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure the softmax of random scores, and train with and without the division."""
    found = {scaled: {width: softmax_of_scores(width, scaled=scaled) for width in WIDTHS} for scaled in (True, False)}
    names = {True: "divided by √d_k", False: "not divided"}
    runs = {True: runner.trained(TRANSFORMER), False: runner.trained(UNSCALED)}
    bleu = {scaled: mean_and_sd(run.bleu("valid") for run in runs[scaled]) for scaled in runs}
    curves = [
        Line(
            names[scaled],
            [
                (step, sum(values) / len(values))
                for step, values in _by_step([run.curve("nll") for run in runs[scaled]])
            ],
            [point for run in runs[scaled] for point in run.curve("nll")],
        )
        for scaled in runs
    ]

    def plot(quantity: str, title: str, *, log_y: bool) -> Markup:
        lines = [Line(names[s], [(w, found[s][w][quantity]) for w in WIDTHS]) for s in (True, False)]
        return line_plot(lines, name=title, x="d_k", y=title, log_x=True, log_y=log_y)

    wide, narrow = WIDTHS[-1], WIDTHS[0]
    mechanism = (
        all(abs(found[False][w]["variance"] / w - 1) < 0.15 for w in WIDTHS)
        and all(abs(found[True][w]["variance"] - 1) < 0.15 for w in WIDTHS)
        and found[False][wide]["gradient"] < 0.5 * found[True][wide]["gradient"]
        and found[False][wide]["entropy"] < 0.2 * found[True][wide]["entropy"]
    )
    trains_better = min(bleu[True]["values"]) > max(bleu[False]["values"])
    return Finding(
        held=mechanism and trains_better,
        summary=(
            f"The variance of q·k is d_k to within 15 %. At d_k = {wide} the softmax over {KEYS} keys has an entropy "
            f"of {found[True][wide]['entropy']:.2f} nats with the division and {found[False][wide]['entropy']:.2f} "
            f"without it, and its Jacobian has a norm of {found[True][wide]['gradient']:.3f} and "
            f"{found[False][wide]['gradient']:.3f} (at d_k = {narrow}: {found[False][narrow]['gradient']:.3f}). "
            f"A transformer with d_k = 32 reaches a valid BLEU of {format_mean(bleu[True])} with the division and "
            f"{format_mean(bleu[False])} without it: "
            + ("the division helps training." if trains_better else "the division does not help training.")
        ),
        numbers={
            "softmax": {names[s]: {str(w): found[s][w] for w in WIDTHS} for s in found},
            "valid bleu": {names[s]: bleu[s] for s in bleu},
            "mechanism held": mechanism,
            "training held": trains_better,
        },
        figures=[
            plot("variance", "Variance of the scores", log_y=True),
            plot("entropy", f"Entropy of the softmax over {KEYS} keys, in nats", log_y=False),
            plot("gradient", "Norm of the softmax's Jacobian", log_y=False),
            caption("Training"),
            line_plot(curves, name="Training loss", x="step", y="Training loss, nats per token"),
        ],
    )


def _by_step(curves: list[list[tuple[float, float]]]) -> list[tuple[float, list[float]]]:
    steps = sorted({step for curve in curves for step, _ in curve})
    return [(step, [value for curve in curves for at, value in curve if at == step]) for step in steps]


CLAIM = Claim(
    name="scaling",
    claim="Scores grow with d_k; 1/√d_k keeps the softmax from saturating.",
    measurement=(
        "Variance of q·k, and entropy and Jacobian of the softmax, for random queries and keys; and the BLEU of a "
        "transformer whose self-attention divides by √d_k or does not. The claim holds if the division keeps variance, "
        "entropy and gradients independent of d_k, and gives a better BLEU for every seed (Vaswani et al. 2017, "
        "§3.2.1)."
    ),
    models=(TRANSFORMER, UNSCALED),
    experiment=experiment,
)
