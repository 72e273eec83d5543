"""What Q, K and V are learned for."""

from experiments.claim import Claim, Finding
from experiments.context import TAGS
from experiments.laboratory import Laboratory, shown, spread
from experiments.plots import Line, line_plot, table
from experiments.recipes import LONG_STEPS, PARAMETER_FREE_LONGER, TRANSFORMER_LONGER
from heed.compare.challenge import contrastive_accuracy
from heed.data.synthetic import challenge

MODELS = {TRANSFORMER_LONGER: "learned Q, K, V", PARAMETER_FREE_LONGER: "softmax(XXᵀ)X"}


def experiment(laboratory: Laboratory) -> Finding:
    contrasts = [contrast for contrast in challenge(seed=1, per_tag=400) if contrast.tag in TAGS]
    runs = {label: laboratory.runs(recipe) for recipe, label in MODELS.items()}
    bleu = {
        label: {split: spread(run.bleu(split) for run in of) for split in ("test", "long")}
        for label, of in runs.items()
    }
    accuracies = {label: [contrastive_accuracy(run.translator, contrasts) for run in of] for label, of in runs.items()}
    by_tag = {label: {tag: spread(a[tag].share for a in of) for tag in TAGS} for label, of in accuracies.items()}
    overall = {
        label: spread(sum(a[tag].share for tag in TAGS) / len(TAGS) for a in of) for label, of in accuracies.items()
    }
    learned, free = MODELS.values()
    held = min(bleu[learned]["test"]["values"]) > max(bleu[free]["test"]["values"]) and min(
        overall[learned]["values"]
    ) > max(overall[free]["values"])
    return Finding(
        held=held,
        summary=(
            f"Test BLEU is {shown(bleu[learned]['test'])} with learned queries, keys and values and "
            f"{shown(bleu[free]['test'])} where self-attention learns nothing; of contrasts that context decides "
            f"{overall[learned]['mean']:.1%} and {overall[free]['mean']:.1%} are won."
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
                y="Training loss, nats a token (line: seed 1)",
            ),
            table(
                ["", "test BLEU", "long", *TAGS.values()],
                [
                    [
                        label,
                        shown(bleu[label]["test"]),
                        shown(bleu[label]["long"]),
                        *(f"{by_tag[label][tag]['mean']:.1%}" for tag in TAGS),
                    ]
                    for label in runs
                ],
            ),
        ],
    )


CLAIM = Claim(
    name="query_key_value",
    claim="Similarity alone is not enough; Q, K and V learn the context.",
    measurement=(
        "BLEU and contrastive accuracy of a transformer whose self-attention is softmax(XXᵀ/√d)X, with nothing "
        "learned, and of the same with learned projections, after "
        f"{LONG_STEPS:,} steps. It holds if the latter is better in both, for every seed."
    ),
    recipes=tuple(MODELS),
    experiment=experiment,
)
