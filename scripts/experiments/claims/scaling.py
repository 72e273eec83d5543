"""Claim: dividing scores by √d_k keeps the softmax from saturating."""

import torch
from torch import Tensor

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, bleu
from experiments.small_models import TRANSFORMER, small
from heed.functional import attend

WIDTHS = (1, 4, 16, 64, 256, 1024)
KEYS = 32
DRAWS = 2000
DIVIDED, NOT_DIVIDED = "divided by √d_k", "not divided"


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


def experiment(runs: Runs) -> Finding:
    """Measure the softmax of random scores, and train with and without the division."""
    found = {
        label: {width: softmax_of_scores(width, scaled=label == DIVIDED) for width in WIDTHS}
        for label in (DIVIDED, NOT_DIVIDED)
    }
    scores = bleu(runs, "valid")
    wide, narrow = WIDTHS[-1], WIDTHS[0]
    divided, plain = found[DIVIDED], found[NOT_DIVIDED]
    mechanism = (
        all(abs(plain[width]["variance"] / width - 1) < 0.15 for width in WIDTHS)
        and all(abs(divided[width]["variance"] - 1) < 0.15 for width in WIDTHS)
        and plain[wide]["gradient"] < 0.5 * divided[wide]["gradient"]
        and plain[wide]["entropy"] < 0.2 * divided[wide]["entropy"]
    )
    trains_better = min(scores[DIVIDED]) > max(scores[NOT_DIVIDED])
    return Finding(
        held=mechanism and trains_better,
        summary=(
            f"The variance of q·k is d_k to within 15 %. At d_k = {wide} the softmax over {KEYS} keys has an entropy "
            f"of {divided[wide]['entropy']:.2f} nats with the division and {plain[wide]['entropy']:.2f} without it, "
            f"and its Jacobian has a norm of {divided[wide]['gradient']:.3f} and {plain[wide]['gradient']:.3f} (at "
            f"d_k = {narrow}: {plain[narrow]['gradient']:.3f}). A transformer with d_k = 32 reaches a valid BLEU of "
            f"{scores[DIVIDED]:.1f} with the division and {scores[NOT_DIVIDED]:.1f} without it: the division "
            f"{'helps' if trains_better else 'does not help'} training."
        ),
        numbers={"softmax": found, "valid bleu": scores, "mechanism held": mechanism, "training held": trains_better},
        table=[
            *(
                Figure(f"entropy of the softmax at d_k = {wide} in nats, {label}", [of[wide]["entropy"]], ".2f")
                for label, of in found.items()
            ),
            *(Figure(f"BLEU, trained at d_k = 32, {label}", of) for label, of in scores.items()),
        ],
    )


CLAIM = Claim(
    name="scaling",
    claim="Scores grow with d_k; 1/√d_k keeps the softmax from saturating.",
    measurement=(
        "Variance of q·k, and entropy and Jacobian of the softmax, for random queries and keys; and the BLEU of a "
        "transformer whose self-attention divides by √d_k or does not. The claim holds if the division keeps variance, "
        "entropy and gradients independent of d_k, and gives a better BLEU for every seed (Vaswani et al. 2017, "
        "§3.2.1)."
    ),
    models={
        DIVIDED: TRANSFORMER,
        NOT_DIVIDED: small("transformer", "transformer-unscaled", "model.self_attention.score=dot"),
    },
    experiment=experiment,
)
