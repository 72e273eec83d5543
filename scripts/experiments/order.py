"""Sets and sequences: what positions are for."""

import torch
from torch import Tensor

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, Trained, shown, spread
from experiments.plots import caption, table
from experiments.recipes import ORDERLESS, TRANSFORMER, small
from heed.compare.challenge import Accuracy, ReadContrast, contrastive_accuracy
from heed.data.synthetic import challenge
from heed.evaluation.significance import wilson
from heed.layers.positions import PositionsConfig, PositionVectors
from heed.models.transformer import Transformer
from heed.plot.svg import Mark, Row, dot_plot

KINDS = {
    "none": ORDERLESS,
    "sinusoidal": TRANSFORMER,
    **{
        kind: small("transformer", f"transformer-{kind}", f"model/positions={kind}", seeds=1)
        for kind in ("learned", "rotary", "alibi", "relative")
    },
}

EATING = [
    ReadContrast("The man ate a fish.", "Der Mann aß einen Fisch.", "Der Fisch aß einen Mann.", "eating"),
    ReadContrast("The fish ate a man.", "Der Fisch aß einen Mann.", "Der Mann aß einen Fisch.", "eating"),
]
WIDTH, NEAR, FAR = 64, 50, 500
"""Of the codes whose desiderata are checked, and the lengths over which."""


@torch.no_grad()
def equivariance_error(model: Transformer) -> float:
    """max |encode(πx) − π encode(x)| over random sentences x and permutations π."""
    model.eval()
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


def seen_by_scores(kind: str, length: int) -> Tensor:
    """What positions alone make of the score between query i and key j, all contents being equal: "N N".

    For absolute codes p_iᵀ p_j; else the score of one vector, at all positions, with itself, bias included.
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
        turned = relative.rotate(content, 0)
        scores = (turned @ turned.transpose(2, 3) * WIDTH**-0.5)[0, 0]
        bias = relative.bias(length, length)
        seen: Tensor = scores if bias is None else scores + bias[0, 0]
        return seen


def desiderata(kind: str) -> dict[str, bool]:
    """Which of the four things wished of a position code this one has."""
    near, far = seen_by_scores(kind, NEAR), seen_by_scores(kind, FAR)
    differences = (near[:, None] - near[None]).abs().amax(-1) + torch.eye(NEAR)
    diagonals = max(float(near.diagonal(k).max() - near.diagonal(k).min()) for k in range(NEAR))
    return {
        "unique": float(differences.min()) > 1e-6,
        "bounded": float(far.max() - far.min()) <= 2 * float(near.max() - near.min()),
        "equal distances": diagonals < 1e-4 * float(near.abs().max()),
        "deterministic": bool((far[:NEAR, :NEAR] - near).abs().max() < 1e-6),
    }


def experiment(laboratory: Laboratory) -> Finding:
    roles = [contrast for contrast in challenge(seed=1, per_tag=400) if contrast.tag == "roles"]
    runs = {kind: laboratory.runs(recipe) for kind, recipe in KINDS.items()}
    accuracy = {kind: [contrastive_accuracy(run.translator, roles)["roles"] for run in runs[kind]] for kind in runs}
    eating = {kind: [_eating(run) for run in runs[kind]] for kind in runs}
    errors = {kind: max(equivariance_error(_transformer(run)) for run in runs[kind]) for kind in runs}
    bleu = {kind: {split: spread(run.bleu(split) for run in runs[kind]) for split in ("test", "long")} for kind in runs}
    wished = {kind: desiderata(kind) for kind in runs if kind != "none"}

    chance = all(low <= 0.5 <= high for low, high in (wilson(a.right, a.total) for a in accuracy["none"]))
    aware = all(wilson(a.right, a.total)[0] > 0.5 for kind in accuracy if kind != "none" for a in accuracy[kind])
    held = errors["none"] < 1e-5 and all(errors[kind] > 1e-2 for kind in wished) and chance and aware
    shares = {kind: spread(a.share for a in found) for kind, found in accuracy.items()}
    return Finding(
        held=held,
        summary=(
            f"Without positions a permuted sentence gives the permuted states to {errors['none']:.0e}, and of two "
            f"readings of who does what to whom the right one is likelier in {shares['none']['mean']:.1%} of the "
            f"cases; with sinusoidal positions in {shares['sinusoidal']['mean']:.1%}. On sentences longer than any in "
            "training BLEU is " + ", ".join(f"{shown(bleu[kind]['long'])} ({kind})" for kind in bleu) + "."
        ),
        numbers={
            "largest deviation from equivariance": errors,
            "who does what": shares,
            "The man ate a fish": {kind: spread(values) for kind, values in eating.items()},
            "bleu": bleu,
            "desiderata": wished,
        },
        figures=[
            caption("Who does what to whom: share of contrasts won (chance: 50 %)"),
            dot_plot(
                [_row(kind, accuracy[kind], number) for number, kind in enumerate(runs)], name="Who does what", line=50
            ),
            table(
                [
                    "positions",
                    "deviation from a set",
                    "“The man ate a fish” / “The fish ate a man”",
                    "test BLEU",
                    "long",
                ],
                [
                    [
                        kind,
                        f"{errors[kind]:.0e}",
                        f"{sum(eating[kind]) / len(eating[kind]):.0%} right",
                        shown(bleu[kind]["test"]),
                        shown(bleu[kind]["long"]),
                    ]
                    for kind in runs
                ],
            ),
            caption("What is wished of a position code, checked"),
            table(
                ["positions", "unique", "bounded", "equal distances", "deterministic"],
                [[kind, *("yes" if found else "no" for found in of.values())] for kind, of in wished.items()],
            ),
        ],
    )


def _transformer(run: Trained) -> Transformer:
    assert isinstance(run.model, Transformer)
    return run.model


def _eating(run: Trained) -> float:
    return contrastive_accuracy(run.translator, EATING)["eating"].share


def _row(kind: str, found: list[Accuracy], number: int) -> Row:
    right, total = sum(a.right for a in found), sum(a.total for a in found)
    low, high = wilson(right, total)
    mark = Mark(
        100 * right / total,
        (100 * low, 100 * high),
        f"side-{number % 6}",
        f"{100 * right / total:.1f} %",
        [100 * a.share for a in found],
    )
    return Row(kind, [mark])


CLAIM = Claim(
    name="order",
    claim="Self-attention does not know order; positions tell it.",
    measurement=(
        "Whether permuting the words merely permutes the encoder's states; whether the model tells who does what to "
        "whom; BLEU beyond the trained length; and four properties of each code: “unique” (no two positions look "
        f"alike to the scores), “bounded” (scores over {FAR} positions at most twice those over {NEAR}), “equal "
        "distances” (a score depends on i − j alone), “deterministic” (the sentence's length changes nothing). It "
        "holds if without positions the encoder is equivariant to 1e-5 and who-does-what is at chance, and neither is "
        "so with any kind (Vaswani et al. 2017, §3.5)."
    ),
    recipes=tuple(KINDS.values()),
    experiment=experiment,
)
