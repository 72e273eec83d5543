"""Claim: a fixed vector loses information about long sentences; attention does not."""

from experiments.aggregate import format_mean, mean_and_sd
from experiments.claim import Claim, Finding
from experiments.plots import Line, line_plot
from experiments.runner import ExperimentRunner, TrainedModel
from experiments.small_models import FIXED_VECTOR_LONGER, LONG_STEPS, RNN_LONGER, TRANSFORMER_LONGER
from heed.evaluation.scores import corpus_scores
from heed.synthetic import split_punctuation

EDGES = (10, 14, 18, 22)
"""Number of words at which the next bucket of the test set starts. The split ``long`` is the last bucket."""

LABELS = {
    FIXED_VECTOR_LONGER: "RNN, fixed vector",
    RNN_LONGER: "RNN + attention",
    TRANSFORMER_LONGER: "transformer",
}


def bleu_by_length(run: TrainedModel) -> dict[str, float]:
    """Return the BLEU of the test set by number of source words, and that of the split ``long``."""
    sources, references, translations = (run.lines("test", kind) for kind in ("src", "ref", "hyp"))
    lengths = [len(split_punctuation(source)) for source in sources]
    found = {}
    for low, high in zip((0, *EDGES), (*EDGES, None), strict=True):
        rows = [row for row, length in enumerate(lengths) if low <= length and (high is None or length < high)]
        label = f"{low}+" if high is None else f"{low}–{high - 1}" if low else f"≤ {high - 1}"
        scores = corpus_scores([translations[row] for row in rows], [references[row] for row in rows], tgt_lang="de")
        found[label] = scores.bleu
    longest = [len(split_punctuation(source)) for source in run.lines("long", "src")]
    return found | {f"{min(longest)}–{max(longest)}": run.bleu("long")}


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure BLEU by source length for RNNs with and without attention and a transformer."""
    by_model = {LABELS[spec]: [bleu_by_length(run) for run in runner.trained(spec)] for spec in LABELS}
    buckets = list(next(iter(by_model.values()))[0])
    numbers = {
        label: {bucket: mean_and_sd(run[bucket] for run in runs) for bucket in buckets}
        for label, runs in by_model.items()
    }
    lines = [
        Line(
            label,
            [(index, numbers[label][bucket]["mean"]) for index, bucket in enumerate(buckets)],
            [(index, run[bucket]) for index, bucket in enumerate(buckets) for run in runs],
        )
        for label, runs in by_model.items()
    ]
    gains = {
        bucket: [
            attention[bucket] - fixed[bucket]
            for attention, fixed in zip(
                by_model[LABELS[RNN_LONGER]], by_model[LABELS[FIXED_VECTOR_LONGER]], strict=True
            )
        ]
        for bucket in buckets
    }
    shortest, longest, beyond = (mean_and_sd(gains[bucket]) for bucket in (buckets[0], buckets[-2], buckets[-1]))
    figure = line_plot(
        lines,
        name="BLEU by source length",
        x="source words (the last bucket: longer than any training sentence)",
        y="BLEU",
        ticks=list(enumerate(buckets)),
    )
    return Finding(
        held=min(longest["values"]) > max(shortest["values"]),
        summary=(
            f"Attention improves an RNN by {format_mean(shortest)} BLEU on sentences of {buckets[0]} words, by "
            f"{format_mean(longest)} on {buckets[-2]} words, and by {format_mean(beyond)} on {buckets[-1]} words, "
            f"which is longer than any training sentence."
        ),
        numbers={"bleu": numbers, "gain of attention": {bucket: mean_and_sd(gains[bucket]) for bucket in buckets}},
        figures=[figure],
    )


CLAIM = Claim(
    name="fixed_vector",
    claim="A fixed vector forgets long sentences; attention does not.",
    measurement=(
        "BLEU by source length of an RNN whose decoder receives the encoder's last state only, of the same RNN with "
        f"Luong's attention, and of a transformer, after {LONG_STEPS:,} steps. The claim holds if attention improves "
        f"the longest sentences of the test set more than the shortest, for every seed (Bahdanau et al. 2015, fig. 2)."
    ),
    models=tuple(LABELS),
    experiment=experiment,
)
