"""What a word means depends on the others."""

from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, spread
from experiments.plots import caption
from experiments.recipes import (
    FIXED_VECTOR_LONGER,
    LONG_STEPS,
    RNN,
    RNN_LONGER,
    STEPS,
    TRANSFORMER,
    TRANSFORMER_LONGER,
)
from heed.compare.challenge import contrastive_accuracy
from heed.data.synthetic import challenge
from heed.evaluation.significance import wilson
from heed.plot.svg import Mark, Row, dot_plot

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


def experiment(laboratory: Laboratory) -> Finding:
    contrasts = [contrast for contrast in challenge(seed=1, per_tag=400) if contrast.tag in TAGS]
    found = {
        label: [contrastive_accuracy(run.translator, contrasts) for run in laboratory.runs(recipe)]
        for recipe, label in MODELS.items()
    }
    shares = {label: {tag: spread(run[tag].share for run in runs) for tag in TAGS} for label, runs in found.items()}
    rows = []
    for tag, title in TAGS.items():
        marks = []
        for number, runs in enumerate(found.values()):
            right, total = sum(run[tag].right for run in runs), sum(run[tag].total for run in runs)
            low, high = wilson(right, total)
            share = 100 * right / total
            marks.append(
                Mark(
                    share,
                    (100 * low, 100 * high),
                    f"side-{number}",
                    f"{share:.1f} %",
                    [100 * run[tag].share for run in runs],
                )
            )
        rows.append(Row(title, marks))
    above = {
        label: {tag: all(wilson(run[tag].right, run[tag].total)[0] > 0.5 for run in runs) for tag in TAGS}
        for label, runs in found.items()
    }
    attending = (MODELS[TRANSFORMER_LONGER], MODELS[RNN_LONGER])
    failing = [f"{label} on {TAGS[tag]}" for label in attending for tag in TAGS if not above[label][tag]]
    legend = "".join(f'<li class="side-{number}">{label}</li>' for number, label in enumerate(found))
    return Finding(
        held=not failing,
        summary=(
            "Of contrasts that nothing but the context decides, the transformer gets right "
            + ", ".join(f"{shares[attending[0]][tag]['mean']:.1%} ({title})" for tag, title in TAGS.items())
            + f" after {LONG_STEPS:,} steps; the RNN with attention "
            + ", ".join(f"{shares[attending[1]][tag]['mean']:.1%}" for tag in TAGS)
            + (f". Not above chance: {'; '.join(failing)}." if failing else ". Chance is 50 %.")
        ),
        numbers={"accuracy": shares},
        figures=[
            caption("Share of contrasts won (chance: 50 %; small dots: single runs)"),
            f'<ul class="legend">{legend}</ul>',
            dot_plot(rows, name="Contrastive accuracy", line=50),
        ],
    )


CLAIM = Claim(
    name="context",
    claim="Meaning comes from context.",
    measurement=(
        "Contrastive accuracy: is the right translation likelier than one that differs only in what the context "
        "decides? Contrasts come in twins, so that a constant preference gets 50 %. It holds if the RNN with "
        "attention and the transformer, trained for long, are above chance on every kind (Wilson's 95 % interval), for "
        "every seed (Sennrich 2017)."
    ),
    recipes=tuple(MODELS),
    experiment=experiment,
)
