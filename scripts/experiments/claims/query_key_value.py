"""Claim: self-attention needs learned queries, keys and values."""

from experiments.claim import Claim, Finding
from experiments.measures import TAGS, Figure, Runs, Values, accuracies, bleu, fractions
from experiments.small_models import LONG_STEPS, PARAMETER_FREE_LONGER, TRANSFORMER_LONGER

LEARNED, FREE = "learned Q, K, V", "softmax(XXᵀ)X"


def experiment(runs: Runs) -> Finding:
    """Compare learned with parameter-free self-attention."""
    test, long = bleu(runs, "test"), bleu(runs, "long")
    by_tag = {
        label: {tag: fractions(seeds) for tag, seeds in found.items()}
        for label, found in accuracies(runs, *TAGS).items()
    }
    overall = {
        label: Values(sum(seed) / len(TAGS) for seed in zip(*found.values(), strict=True))
        for label, found in by_tag.items()
    }
    return Finding(
        held=min(test[LEARNED]) > max(test[FREE]) and min(overall[LEARNED]) > max(overall[FREE]),
        summary=(
            f"Test BLEU is {test[LEARNED]:.1f} with learned queries, keys and values and {test[FREE]:.1f} with "
            f"parameter-free self-attention. Contrastive accuracy is {overall[LEARNED].mean:.1%} and "
            f"{overall[FREE].mean:.1%}."
        ),
        numbers={
            "bleu": {label: {"test": test[label], "long": long[label]} for label in runs},
            "accuracy": by_tag,
            "mean accuracy": overall,
        },
        table=[
            *(Figure(f"BLEU, {label}", of) for label, of in test.items()),
            *(Figure(f"contrasts right, {label}", of, ".1%") for label, of in overall.items()),
        ],
    )


CLAIM = Claim(
    name="query_key_value",
    claim="Similarity alone is not enough: Q, K and V must be learned.",
    measurement=(
        "BLEU and contrastive accuracy of a transformer whose self-attention is softmax(XXᵀ/√d)X, without "
        "parameters, and of one with learned projections, after "
        f"{LONG_STEPS:,} steps. The claim holds if the latter is better in both, for every seed."
    ),
    models={LEARNED: TRANSFORMER_LONGER, FREE: PARAMETER_FREE_LONGER},
    experiment=experiment,
)
