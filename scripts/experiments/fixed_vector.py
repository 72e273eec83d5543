"""One vector for a whole sentence, against attention."""

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, Trained, shown, spread
from experiments.plots import Line, line_plot
from experiments.recipes import FIXED_VECTOR_LONGER, LONG_STEPS, RNN_LONGER, TRANSFORMER_LONGER
from heed.data.synthetic import split_punctuation
from heed.evaluation.scores import corpus_scores

EDGES = (10, 14, 18, 22)
"""Words with which the next bucket of the test set begins; behind the last one comes the split ``long``."""

LABELS = {
    FIXED_VECTOR_LONGER: "RNN, fixed vector",
    RNN_LONGER: "RNN + attention",
    TRANSFORMER_LONGER: "transformer",
}


def bleu_by_length(run: Trained) -> dict[str, float]:
    """BLEU of the test set's buckets by source length, and of the split ``long``."""
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


def experiment(laboratory: Laboratory) -> Finding:
    by_model = {LABELS[recipe]: [bleu_by_length(run) for run in laboratory.runs(recipe)] for recipe in LABELS}
    buckets = list(next(iter(by_model.values()))[0])
    numbers = {
        label: {bucket: spread(run[bucket] for run in runs) for bucket in buckets} for label, runs in by_model.items()
    }
    lines = [
        Line(
            label,
            [(place, numbers[label][bucket]["mean"]) for place, bucket in enumerate(buckets)],
            [(place, run[bucket]) for place, bucket in enumerate(buckets) for run in runs],
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
    shortest, longest, beyond = (spread(gains[bucket]) for bucket in (buckets[0], buckets[-2], buckets[-1]))
    figure = line_plot(
        lines,
        name="BLEU by source length",
        x="words in the source (the last: longer than anything in training)",
        y="BLEU",
        ticks=list(enumerate(buckets)),
    )
    return Finding(
        held=min(longest["values"]) > max(shortest["values"]),
        summary=(
            f"Attention gains an RNN {shown(shortest)} BLEU on sentences of {buckets[0]} words, {shown(longest)} on "
            f"{buckets[-2]} words, and {shown(beyond)} on {buckets[-1]} words, which are longer than any in training."
        ),
        numbers={"bleu": numbers, "gain of attention": {bucket: spread(gains[bucket]) for bucket in buckets}},
        figures=[figure],
    )


CLAIM = Claim(
    name="fixed_vector",
    claim="A fixed vector forgets long sentences; attention cures it.",
    measurement=(
        "BLEU by source length of an RNN whose decoder sees the encoder's last state alone, of the same RNN with "
        f"Luong's attention, and of a transformer, after {LONG_STEPS:,} steps. It holds if attention gains more on the "
        "longest sentences of the test set than on the shortest, for every seed (Bahdanau et al. 2015, fig. 2)."
    ),
    recipes=tuple(LABELS),
    experiment=experiment,
)
