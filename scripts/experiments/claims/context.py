"""Claim: the translation of a word depends on its context."""

from experiments import small_models as models
from experiments.claim import Claim, Finding
from experiments.measures import TAGS, Figure, Runs, accuracies, fractions
from experiments.small_models import LONG_STEPS, STEPS
from heed.evaluation.significance import wilson

ATTENDING = (f"transformer, {LONG_STEPS:,} steps", f"RNN + attention, {LONG_STEPS:,} steps")
"""The models that the claim is about."""


def experiment(runs: Runs) -> Finding:
    """Measure the contrastive accuracy of five models on four phenomena."""
    found = accuracies(runs, *TAGS)
    shares = {label: {tag: fractions(seeds) for tag, seeds in by_tag.items()} for label, by_tag in found.items()}
    failing = [
        f"{label} on {title}"
        for label in ATTENDING
        for tag, title in TAGS.items()
        if any(wilson(seed.right, seed.total)[0] <= 0.5 for seed in found[label][tag])
    ]
    transformer, rnn = (shares[label] for label in ATTENDING)
    return Finding(
        held=not failing,
        summary=(
            "Of the contrasts that only the context decides, the transformer translates correctly "
            + ", ".join(f"{transformer[tag].mean:.1%} ({title})" for tag, title in TAGS.items())
            + f" after {LONG_STEPS:,} steps; the RNN with attention "
            + ", ".join(f"{rnn[tag].mean:.1%}" for tag in TAGS)
            + (f". Not above chance: {'; '.join(failing)}." if failing else ". Chance is 50 %.")
        ),
        numbers={"accuracy": shares},
        table=[
            Figure(f"{label}: {title}", shares[label][tag], ".1%") for label in ATTENDING for tag, title in TAGS.items()
        ],
    )


CLAIM = Claim(
    name="context",
    claim="Meaning comes from context.",
    measurement=(
        "Contrastive accuracy: the share of sentences whose correct translation has a higher probability than one that "
        "differs only in what the context decides. Contrasts come in pairs with opposite answers, so a constant "
        f"preference gets 50 %. The claim holds if after {LONG_STEPS:,} steps the RNN with attention and the "
        "transformer are above chance on every phenomenon (Wilson's 95 % interval), for every seed (Sennrich 2017)."
    ),
    models={
        "RNN, fixed vector": models.FIXED_VECTOR_LONGER,
        f"RNN + attention, {STEPS:,} steps": models.RNN,
        ATTENDING[1]: models.RNN_LONGER,
        f"transformer, {STEPS:,} steps": models.TRANSFORMER,
        ATTENDING[0]: models.TRANSFORMER_LONGER,
    },
    experiment=experiment,
)
