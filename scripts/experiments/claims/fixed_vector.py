"""Claim: a fixed vector loses information about long sentences; attention does not."""

from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, Values
from experiments.runner import TrainedModel
from experiments.small_models import FIXED_VECTOR_LONGER, LONG_STEPS, RNN_LONGER, TRANSFORMER_LONGER
from heed.evaluation.scores import corpus_scores
from heed.evaluation.words import split_punctuation

EDGES = (10, 14, 18, 22)
"""Number of words at which the next bucket of the test set starts. The split ``long`` is the last bucket."""


def bleu_by_length(run: TrainedModel) -> dict[str, float]:
    """Return the BLEU of the test set by number of source words, and the BLEU of the split ``long``."""
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


def experiment(runs: Runs) -> Finding:
    """Measure BLEU by source length for RNNs with and without attention and a transformer."""
    by_run = {label: [bleu_by_length(run) for run in seeds] for label, seeds in runs.items()}
    buckets = list(by_run["transformer"][0])
    numbers = {
        label: {bucket: Values(run[bucket] for run in found) for bucket in buckets} for label, found in by_run.items()
    }
    gains = {
        bucket: Values(
            attention[bucket] - fixed[bucket]
            for attention, fixed in zip(by_run["RNN + attention"], by_run["RNN, fixed vector"], strict=True)
        )
        for bucket in buckets
    }
    shortest, longest, beyond = buckets[0], *buckets[-2:]
    return Finding(
        held=min(gains[longest]) > max(gains[shortest]),
        summary=(
            f"Attention improves an RNN by {gains[shortest]:.1f} BLEU on sentences of {shortest} words, by "
            f"{gains[longest]:.1f} on {longest} words, and by {gains[beyond]:.1f} on {beyond} words, which is longer "
            "than any training sentence."
        ),
        numbers={"bleu": numbers, "gain of attention": gains},
        table=[
            Figure(f"BLEU that an RNN gains by attention, sources of {words} words", gains[words])
            for words in (shortest, longest, beyond)
        ],
    )


CLAIM = Claim(
    name="fixed_vector",
    claim="A fixed vector forgets long sentences; attention does not.",
    measurement=(
        "BLEU by source length of an RNN whose decoder receives the encoder's last state only, of the same RNN with "
        f"Luong's attention, and of a transformer, after {LONG_STEPS:,} steps. The claim holds if attention improves "
        f"the longest sentences of the test set more than the shortest, for every seed (Bahdanau et al. 2015, fig. 2)."
    ),
    models={"RNN, fixed vector": FIXED_VECTOR_LONGER, "RNN + attention": RNN_LONGER, "transformer": TRANSFORMER_LONGER},
    experiment=experiment,
)
