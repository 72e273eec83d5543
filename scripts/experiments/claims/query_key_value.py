"""Claim: self-attention needs learned queries, keys and values."""

from experiments.aggregate import format_mean, mean_and_sd
from experiments.challenge_set import contrasts
from experiments.claim import Claim, Finding
from experiments.claims.context import TAGS
from experiments.plots import Line, line_plot, table
from experiments.runner import ExperimentRunner
from experiments.small_models import LONG_STEPS, PARAMETER_FREE_LONGER, TRANSFORMER_LONGER
from heed.compare.challenge import contrastive_accuracy

MODELS = {TRANSFORMER_LONGER: "learned Q, K, V", PARAMETER_FREE_LONGER: "softmax(XXᵀ)X"}


def experiment(runner: ExperimentRunner) -> Finding:
    """Compare learned with parameter-free self-attention."""
    challenge = contrasts(*TAGS)
    runs = {label: runner.trained(spec) for spec, label in MODELS.items()}
    bleu = {
        label: {split: mean_and_sd(run.bleu(split) for run in of) for split in ("test", "long")}
        for label, of in runs.items()
    }
    accuracies = {label: [contrastive_accuracy(run.translator, challenge) for run in of] for label, of in runs.items()}
    by_tag = {
        label: {tag: mean_and_sd(a[tag].fraction for a in of) for tag in TAGS} for label, of in accuracies.items()
    }
    overall = {
        label: mean_and_sd(sum(a[tag].fraction for tag in TAGS) / len(TAGS) for a in of)
        for label, of in accuracies.items()
    }
    learned, free = MODELS.values()
    held = min(bleu[learned]["test"]["values"]) > max(bleu[free]["test"]["values"]) and min(
        overall[learned]["values"]
    ) > max(overall[free]["values"])
    return Finding(
        held=held,
        summary=(
            f"Test BLEU is {format_mean(bleu[learned]['test'])} with learned queries, keys and values and "
            f"{format_mean(bleu[free]['test'])} with parameter-free self-attention. Contrastive accuracy is "
            f"{overall[learned]['mean']:.1%} and {overall[free]['mean']:.1%}."
        ),
        numbers={"bleu": bleu, "accuracy": by_tag, "mean accuracy": overall},
        figures=[
            line_plot(
                [
                    Line(label, of[0].curve("nll"), [point for run in of[1:] for point in run.curve("nll")])
                    for label, of in runs.items()
                ],
                name="Training loss",
                x="step",
                y="Training loss, nats per token (line: seed 1)",
            ),
            table(
                ["", "test BLEU", "long", *TAGS.values()],
                [
                    [
                        label,
                        format_mean(bleu[label]["test"]),
                        format_mean(bleu[label]["long"]),
                        *(f"{by_tag[label][tag]['mean']:.1%}" for tag in TAGS),
                    ]
                    for label in runs
                ],
            ),
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
    models=tuple(MODELS),
    experiment=experiment,
)
