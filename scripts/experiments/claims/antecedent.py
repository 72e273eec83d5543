"""Claim: "it" attends to its antecedent; residual connections and norms make a deep stack trainable."""

from collections.abc import Sequence

from experiments import sense_attention
from experiments.antecedent_attention import TITLES, AntecedentReport, Part, measure
from experiments.claim import Claim, Finding
from experiments.measures import Figure, Runs, accuracies, bleu, fractions
from experiments.small_models import LONG_STEPS, TRANSFORMER, TRANSFORMER_LONGER, small

LONGER = f"{LONG_STEPS:,} steps"
STACKS = {
    "residual and norm": TRANSFORMER,
    "no norm": small("transformer", "transformer-no-norm", "model.norm=none", seeds=1),
    "no residual": small("transformer", "transformer-no-residual", "model.residual=false", seeds=1),
    "neither": small("transformer", "transformer-neither", "model.residual=false", "model.norm=none", seeds=1),
}


def experiment(runs: Runs) -> Finding:
    """Measure attention of the longer transformers, and train stacks without residual connections or norms."""
    seeds = runs[LONGER]
    reports: dict[Part, list[AntecedentReport]] = {part: [measure(run, part)[0] for run in seeds] for part in TITLES}
    nouns = [sense_attention.measure(run.translator) for run in seeds]
    pronouns = fractions(accuracies({LONGER: seeds}, "pronoun")[LONGER]["pronoun"])
    stacks = {label: runs[label] for label in STACKS}
    scores = bleu(stacks, "valid")
    complete, *reduced = scores.values()
    attends = all(one.challenge.interval[0] > 0 for one in reports["encoder"])
    needed = all(max(of) < min(complete) for of in reduced)
    return Finding(
        held=attends and needed,
        summary=(
            f"The models translate {pronouns.mean:.1%} of the ambiguous pronouns correctly. The difference between "
            f"the attention to the right and to the wrong antecedent is {_means(reports['encoder'])} for the best "
            f"encoder heads, from “it”, and {_means(reports['decoder'])} for the best decoder heads, when er, sie or "
            "es is written"
            + (". " if attends else ": the decoder resolves the pronoun, not the encoder. ")
            + "In the encoder, an ambiguous noun gives the words that decide its sense "
            + " and ".join(f"{noun.mass:.2f}" for noun in nouns)
            + f" of a head's attention; they are {nouns[0].share:.0%} of the words. Valid BLEU with residual "
            + f"connections and norms is {complete:.1f}; "
            + ", ".join(f"{label} {scores[label]:.1f}" for label in list(STACKS)[1:])
            + "."
        ),
        numbers={
            "pronouns right": pronouns,
            "encoder, from it": reports["encoder"],
            "encoder, from an ambiguous noun": nouns,
            "decoder, writing the pronoun": reports["decoder"],
            "it held": attends,
            "valid bleu": scores,
            "residual and norm held": needed,
        },
        table=[
            *(
                Figure(
                    f"attention to the right minus the wrong antecedent, {part} {TITLES[part]}",
                    [one.challenge.mean for one in of],
                    ".2f",
                )
                for part, of in reports.items()
            ),
            *(Figure(f"BLEU, {label}", of) for label, of in scores.items()),
        ],
    )


def _means(reports: Sequence[AntecedentReport]) -> str:
    """Format the challenge mean and interval of every seed."""
    challenges = [report.challenge for report in reports]
    return " and ".join(f"{_signed(of.mean)} [{', '.join(map(_signed, of.interval))}]" for of in challenges)


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")


CLAIM = Claim(
    name="antecedent",
    claim="“it” attends to its antecedent; residual connections and norms make a deep stack trainable.",
    measurement=(
        "Encoder self-attention from “it” to its right minus its wrong antecedent, for the head that is best on "
        "validation sentences, over the challenge set (a head with a constant preference gets 0); the same for the "
        "decoder's cross-attention when it writes the pronoun, both "
        f"after {LONG_STEPS:,} steps; and training without residual connections, norms or both. The claim holds if the "
        "encoder's mean difference is above 0 (95 % bootstrap interval) and every removal lowers BLEU, for every seed."
    ),
    models={LONGER: TRANSFORMER_LONGER, **STACKS},
    experiment=experiment,
)
