"""Claim: self-attention needs positions to know the order of words."""

import torch
from torch import Tensor

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, accuracies, bleu, fractions, over_seeds
from experiments.runner import TrainedModel
from experiments.small_models import TRANSFORMER, small
from heed.comparison.challenge import ContrastivePair, contrastive_accuracy
from heed.evaluation.significance import wilson
from heed.layers.positions import PositionsConfig, PositionVectors
from heed.models.transformer import Transformer

EATING = [
    ContrastivePair("The man ate a fish.", "Der Mann aß einen Fisch.", "Der Fisch aß einen Mann.", "eating"),
    ContrastivePair("The fish ate a man.", "Der Fisch aß einen Mann.", "Der Mann aß einen Fisch.", "eating"),
]
WIDTH, NEAR, FAR = 64, 50, 500
"""Width of the position codes whose properties are checked, and the lengths at which."""


@torch.no_grad()
def equivariance_error(run: TrainedModel) -> float:
    """Return max |encode(πx) − π encode(x)| over random sentences x and permutations π."""
    model = run.model.eval()
    assert isinstance(model, Transformer)
    generator = torch.Generator().manual_seed(0)
    vocabulary = model.tgt_embedding.num_embeddings
    error = 0.0
    for length in (5, 12, 30):
        ids = torch.randint(4, vocabulary, (8, length), generator=generator)
        mask = torch.ones_like(ids, dtype=torch.bool)
        order = torch.randperm(length, generator=generator)
        moved = model.encode(ids[:, order], mask).states - model.encode(ids, mask).states[:, order]
        error = max(error, float(moved.abs().max()))
    return error


def position_scores(kind: str, length: int) -> Tensor:
    """Return the attention scores between all positions, "N N", when all tokens have the same content.

    For absolute codes p_iᵀ p_j; for the others the score of one random vector with itself at each pair of positions,
    including the bias.
    """
    torch.manual_seed(0)
    config = PositionsConfig(
        kind=kind,
        merge="add" if kind in ("sinusoidal", "learned") else None,
        max_length=FAR if kind == "learned" else None,
    )
    absolute = config.absolute(d_model=WIDTH)
    if isinstance(absolute, PositionVectors):
        code = absolute.vectors(0, length).detach().double()
        products: Tensor = code @ code.T
        return products
    relative = config.relative(num_heads=1, width=WIDTH, causal=False).double()
    with torch.no_grad():
        for parameter in relative.parameters():
            parameter.normal_()
        generator = torch.Generator().manual_seed(1)
        content = torch.randn(1, 1, 1, WIDTH, generator=generator, dtype=torch.float64).expand(1, 1, length, WIDTH)
        rotated = relative.rotate(content, 0)
        scores = (rotated @ rotated.transpose(2, 3) * WIDTH**-0.5)[0, 0]
        bias = relative.bias(length, length)
        total: Tensor = scores if bias is None else scores + bias[0, 0]
        return total


def properties(kind: str) -> dict[str, bool]:
    """Check four desirable properties of a position code; the claim's ``measurement`` defines them."""
    near, far = position_scores(kind, NEAR), position_scores(kind, FAR)
    differences = (near[:, None] - near[None]).abs().amax(-1) + torch.eye(NEAR)
    diagonals = max(float(near.diagonal(k).max() - near.diagonal(k).min()) for k in range(NEAR))
    return {
        "unique": float(differences.min()) > 1e-6,
        "bounded": float(far.max() - far.min()) <= 2 * float(near.max() - near.min()),
        "equal distances": diagonals < 1e-4 * float(near.abs().max()),
        "deterministic": bool((far[:NEAR, :NEAR] - near).abs().max() < 1e-6),
    }


def experiment(runs: Runs) -> Finding:
    """Measure equivariance, contrastive accuracy, BLEU and code properties for each kind of positions."""
    accuracy = {kind: found["roles"] for kind, found in accuracies(runs, "roles").items()}
    shares = {kind: fractions(seeds) for kind, seeds in accuracy.items()}
    eating = over_seeds(runs, lambda run: contrastive_accuracy(run.translator, EATING)["eating"].fraction)
    errors = {kind: max(found) for kind, found in over_seeds(runs, equivariance_error).items()}
    test, long = bleu(runs, "test"), bleu(runs, "long")
    checked = {kind: properties(kind) for kind in runs if kind != "none"}
    chance = all(low <= 0.5 <= high for low, high in (wilson(a.right, a.total) for a in accuracy["none"]))
    aware = all(wilson(a.right, a.total)[0] > 0.5 for kind in checked for a in accuracy[kind])
    return Finding(
        held=errors["none"] < 1e-5 and all(errors[kind] > 1e-2 for kind in checked) and chance and aware,
        summary=(
            f"Without positions, permuting a sentence permutes the encoder states with an error of "
            f"{errors['none']:.0e}. The correct reading of who does what to whom has the higher probability in "
            f"{shares['none'].mean:.1%} of the cases without positions and in {shares['sinusoidal'].mean:.1%} with "
            "sinusoidal ones. On sentences longer than any in training, BLEU is "
            f"{', '.join(f'{value:.1f} ({kind})' for kind, value in long.items())}."
        ),
        numbers={
            "largest deviation from equivariance": errors,
            "who does what": shares,
            "The man ate a fish": eating,
            "bleu": {kind: {"test": test[kind], "long": long[kind]} for kind in runs},
            "desiderata": checked,
        },
        table=[
            Figure("difference between permuted states and states of permuted words, at most", [errors["none"]], ".0e"),
            *(Figure(f"accuracy on who does what to whom: {kind}", of, ".1%") for kind, of in shares.items()),
            *(Figure(f"BLEU beyond the trained length: {kind}", of) for kind, of in long.items()),
        ],
    )  # fmt: skip


CLAIM = Claim(
    name="order",
    claim="Self-attention ignores word order; positions add it.",
    measurement=(
        "Whether permuting the words only permutes the encoder's states; contrastive accuracy on who does what to "
        "whom; BLEU beyond the trained length; and four properties of each code: “unique” (no two positions have the "
        f"same scores), “bounded” (the range of scores over {FAR} positions is at most twice that over {NEAR}), “equal "
        "distances” (a score depends on i − j only), “deterministic” (a score does not depend on the length of the "
        "sentence). The claim holds if without positions the encoder is equivariant to 1e-5 and the accuracy is at "
        "chance, and if neither is true with any kind of positions (Vaswani et al. 2017, §3.5)."
    ),
    models={
        "none": small("transformer", "transformer-no-positions", "model/positions=none"),
        "sinusoidal": TRANSFORMER,
        **{
            kind: small("transformer", f"transformer-{kind}", f"model/positions={kind}", seeds=1)
            for kind in ("learned", "rotary", "alibi", "relative")
        },
    },
    experiment=experiment,
)
