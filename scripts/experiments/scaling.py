"""Why scores are divided by √d_k."""

import torch
from torch import Tensor

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, shown, spread
from experiments.plots import Line, caption, line_plot
from experiments.recipes import TRANSFORMER, small
from heed.functional import attend

WIDTHS = (1, 4, 16, 64, 256, 1024)
KEYS = 32
DRAWS = 2000

UNSCALED = small("transformer", "transformer-unscaled", "model.self_attention.scaled=false")


def softmax_of_scores(width: int, *, scaled: bool) -> dict[str, float]:
    """What attention's softmax is like, for queries and keys with independent entries of mean 0 and variance 1."""
    generator = torch.Generator().manual_seed(width)
    query, key = (torch.randn(DRAWS, length, width, generator=generator, dtype=torch.float64) for length in (1, KEYS))
    everything = torch.ones(1, 1, KEYS, dtype=torch.bool)
    _, weights = attend(query, key, key, everything, scaled=scaled)
    assert weights is not None
    weights = weights.squeeze(1)
    scores = (query @ key.transpose(1, 2)).squeeze(1) * (width**-0.5 if scaled else 1.0)
    return {
        "variance": float(scores.var()),
        "entropy": float(-torch.xlogy(weights, weights).sum(1).mean()),
        "gradient": float(jacobian_norm(weights).mean()),
    }


def jacobian_norm(weights: Tensor) -> Tensor:
    """‖∂p/∂s‖_F of p = softmax(s), whose Jacobian is diag(p) − p pᵀ: √(Σp² − 2Σp³ + (Σp²)²), " N" of "N K"."""
    squares, cubes = weights.pow(2).sum(1), weights.pow(3).sum(1)
    return (squares - 2 * cubes + squares**2).clamp_min(0).sqrt()


def experiment(laboratory: Laboratory) -> Finding:
    found = {scaled: {width: softmax_of_scores(width, scaled=scaled) for width in WIDTHS} for scaled in (True, False)}
    names = {True: "divided by √d_k", False: "not divided"}
    runs = {True: laboratory.runs(TRANSFORMER), False: laboratory.runs(UNSCALED)}
    bleu = {scaled: spread(run.bleu("valid") for run in runs[scaled]) for scaled in runs}
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

    def plot(quantity: str, title: str, *, log_y: bool) -> str:
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
            f"The variance of q·k is d_k to within 15 %. At d_k = {wide} softmax over {KEYS} keys has an entropy of "
            f"{found[True][wide]['entropy']:.2f} nats with the division and {found[False][wide]['entropy']:.2f} "
            f"without, and its Jacobian a norm of {found[True][wide]['gradient']:.3f} and "
            f"{found[False][wide]['gradient']:.3f} (at d_k = {narrow}: {found[False][narrow]['gradient']:.3f}). "
            f"Trained with it, a transformer of d_k = 32 reaches a valid BLEU of {shown(bleu[True])}, without it "
            f"{shown(bleu[False])}: " + ("the division helps." if trains_better else "here training does without it.")
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
            line_plot(curves, name="Training loss", x="step", y="Training loss, nats a token"),
        ],
    )


def _by_step(curves: list[list[tuple[float, float]]]) -> list[tuple[float, list[float]]]:
    steps = sorted({step for curve in curves for step, _ in curve})
    return [(step, [value for curve in curves for at, value in curve if at == step]) for step in steps]


CLAIM = Claim(
    name="scaling",
    claim="Scores grow with d_k; 1/√d_k keeps the softmax alive.",
    measurement=(
        "Variance of q·k, and entropy and Jacobian of the softmax, for random queries and keys; and training a "
        "transformer whose self-attention divides by √d_k or does not. It holds if the division keeps variance, "
        "entropy and gradients, and trains to a better BLEU for every seed (Vaswani et al. 2017, §3.2.1)."
    ),
    recipes=(TRANSFORMER, UNSCALED),
    experiment=experiment,
)
