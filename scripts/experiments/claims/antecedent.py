"""Claim: "it" attends to its antecedent; residual connections and norms make a deep stack trainable."""

from collections.abc import Sequence
from dataclasses import asdict

from markupsafe import Markup

from experiments import sense_attention
from experiments.aggregate import format_mean, mean_and_sd
from experiments.antecedent_attention import Part, PronounAttention, german_pronoun, measure, median_twins
from experiments.antecedent_statistics import AntecedentReport
from experiments.challenge_set import SEED, contrasts
from experiments.claim import Claim, Finding
from experiments.plots import Line, caption, histogram, line_plot, table
from experiments.runner import ExperimentRunner
from experiments.small_models import LONG_STEPS, TRANSFORMER, TRANSFORMER_LONGER, small
from heed.compare.challenge import contrastive_accuracy
from heed.report.figures import heat_map
from heed.synthetic import split_punctuation

STACKS = {
    "residual and norm": TRANSFORMER,
    "no norm": small("transformer", "transformer-no-norm", "model.norm=none", seeds=1),
    "no residual": small("transformer", "transformer-no-residual", "model.residual=false", seeds=1),
    "neither": small("transformer", "transformer-neither", "model.residual=false", "model.norm=none", seeds=1),
}


def figures(report: AntecedentReport, found: Sequence[PronounAttention], part: Part) -> list[Markup]:
    """Draw the distribution over the challenge set, and the attention in the two versions of the median scene."""
    head = report.layer - 1, report.head - 1
    values = [float(one.difference[head]) for one in found]
    title = "Encoder self-attention from “it”" if part == "encoder" else "Cross-attention when er, sie or es is written"
    drawn = [
        caption(f"{title}, layer {report.layer}, head {report.head}"),
        histogram(values, name=title, x="attention to the right − to the wrong antecedent, challenge set"),
    ]
    for one in median_twins(found, head):
        src, tgt, antecedent = split_punctuation(one.case.src), split_punctuation(one.case.tgt), one.case.antecedent
        pronoun = "it" if part == "encoder" else tgt[german_pronoun(tgt)]
        label = f"{pronoun} (= {src[antecedent['right']]})"
        grid = heat_map([label], src, one.weights[head][None], name=one.case.src)
        drawn.append(Markup('<div class="side-0">{}</div>').format(grid))
    return drawn


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure attention of the longer transformers, and train stacks without residual connections or norms."""
    runs = runner.trained(TRANSFORMER_LONGER)
    encoder = [measure(run.folder, run.translator, "encoder", seed=SEED) for run in runs]
    decoder = [measure(run.folder, run.translator, "decoder", seed=SEED) for run in runs]
    nouns = [sense_attention.measure(run.translator, seed=SEED) for run in runs]
    pronouns = contrasts("pronoun")
    accuracy = mean_and_sd(contrastive_accuracy(run.translator, pronouns)["pronoun"].fraction for run in runs)
    stacks = {label: runner.trained(spec) for label, spec in STACKS.items()}
    bleu = {label: mean_and_sd(one.bleu("valid") for one in runs) for label, runs in stacks.items()}
    complete, *reduced = bleu.values()
    attends = all(report.challenge.interval[0] > 0 for report, _ in encoder)
    needed = all(max(of["values"]) < min(complete["values"]) for of in reduced)
    return Finding(
        held=attends and needed,
        summary=(
            f"The models translate {accuracy['mean']:.1%} of the ambiguous pronouns correctly. The difference between "
            "the attention to the right and to the wrong antecedent is "
            f"{_means(encoder)} for the best encoder heads, from “it”, and {_means(decoder)} for the best decoder "
            "heads, when er, sie or es is written"
            + (". " if attends else ": the decoder resolves the pronoun, not the encoder. ")
            + "In the encoder, an ambiguous noun gives the words that decide its sense "
            + " and ".join(f"{noun.mass:.2f}" for noun in nouns)
            + f" of a head's attention; they are {nouns[0].share:.0%} of the words. "
            + f"Valid BLEU with residual connections and norms is {format_mean(complete)}; "
            + ", ".join(f"{label} {format_mean(bleu[label])}" for label in list(STACKS)[1:])
            + "."
        ),
        numbers={
            "pronouns right": accuracy,
            "encoder, from it": [asdict(report) for report, _ in encoder],
            "encoder, from an ambiguous noun": [asdict(noun) for noun in nouns],
            "decoder, writing the pronoun": [asdict(report) for report, _ in decoder],
            "it held": attends,
            "valid bleu": bleu,
            "residual and norm held": needed,
        },
        figures=[
            *figures(*encoder[0], "encoder"),
            *figures(*decoder[0], "decoder"),
            caption("Training with and without residual connections and norms"),
            line_plot(
                [Line(label, runs[0].curve("nll")) for label, runs in stacks.items()],
                name="Training loss",
                x="step",
                y="Training loss, nats per token (seed 1), log scale",
                log_y=True,
            ),
            table(["", "valid BLEU"], [[label, format_mean(bleu[label])] for label in STACKS]),
        ],
    )


def _means(measured: Sequence[tuple[AntecedentReport, list[PronounAttention]]]) -> str:
    """Format the challenge mean and interval of every seed."""
    challenges = [report.challenge for report, _ in measured]
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
    models=(TRANSFORMER_LONGER, *STACKS.values()),
    experiment=experiment,
)
