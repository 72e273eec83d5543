"""Claim: the translation of a word depends on its context."""

from experiments.aggregate import mean_and_sd
from experiments.challenge_set import contrasts
from experiments.claim import Claim, Finding
from experiments.plots import accuracy_mark, caption
from experiments.runner import ExperimentRunner
from experiments.small_models import (
    FIXED_VECTOR_LONGER,
    LONG_STEPS,
    RNN,
    RNN_LONGER,
    STEPS,
    TRANSFORMER,
    TRANSFORMER_LONGER,
)
from heed.compare.challenge import contrastive_accuracy
from heed.evaluation.significance import wilson
from heed.report.figures import Row, dot_plot, legend

TAGS = {
    "pronoun": "it → er, sie, es",
    "sense": "bank → Bank or Ufer",
    "roles": "who does what",
    "far": "far reference",
}
MODELS = {
    FIXED_VECTOR_LONGER: "RNN, fixed vector",
    RNN: f"RNN + attention, {STEPS:,} steps",
    RNN_LONGER: f"RNN + attention, {LONG_STEPS:,} steps",
    TRANSFORMER: f"transformer, {STEPS:,} steps",
    TRANSFORMER_LONGER: f"transformer, {LONG_STEPS:,} steps",
}


def experiment(runner: ExperimentRunner) -> Finding:
    """Measure the contrastive accuracy of five models on four phenomena."""
    challenge = contrasts(*TAGS)
    found = {
        label: [contrastive_accuracy(run.translator, challenge) for run in runner.trained(spec)]
        for spec, label in MODELS.items()
    }
    shares = {
        label: {tag: mean_and_sd(run[tag].fraction for run in runs) for tag in TAGS} for label, runs in found.items()
    }
    rows = []
    for tag, title in TAGS.items():
        marks = [accuracy_mark([run[tag] for run in runs], number) for number, runs in enumerate(found.values())]
        rows.append(Row(title, marks))
    above = {
        label: {tag: all(wilson(run[tag].right, run[tag].total)[0] > 0.5 for run in runs) for tag in TAGS}
        for label, runs in found.items()
    }
    attending = (MODELS[TRANSFORMER_LONGER], MODELS[RNN_LONGER])
    failing = [f"{label} on {TAGS[tag]}" for label in attending for tag in TAGS if not above[label][tag]]
    return Finding(
        held=not failing,
        summary=(
            "Of the contrasts that only the context decides, the transformer translates correctly "
            + ", ".join(f"{shares[attending[0]][tag]['mean']:.1%} ({title})" for tag, title in TAGS.items())
            + f" after {LONG_STEPS:,} steps; the RNN with attention "
            + ", ".join(f"{shares[attending[1]][tag]['mean']:.1%}" for tag in TAGS)
            + (f". Not above chance: {'; '.join(failing)}." if failing else ". Chance is 50 %.")
        ),
        numbers={"accuracy": shares},
        figures=[
            caption("Contrastive accuracy (chance: 50 %; small dots: single runs)"),
            legend(list(found)),
            dot_plot(rows, name="Contrastive accuracy", line=50),
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
    models=tuple(MODELS),
    experiment=experiment,
)
