"""What "it" looks at; and what residual sums and norms are for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heed.claims.claim import Claim, Finding
from heed.claims.laboratory import Laboratory, shown, spread
from heed.claims.plots import Line, caption, histogram, line_plot, table
from heed.claims.recipes import LONG, TRANSFORMER, small
from heed.compare.figures import WordMap, heat_map
from heed.data.synthetic import challenge, words
from heed.errors import HeedError
from heed.evaluation.antecedents import AntecedentReport, mass_difference, report
from heed.evaluation.words import pool, word_shares
from heed.translator import Translator

PER_TAG = 400

STACKS = {
    "residual and norm": TRANSFORMER,
    "no norm": small("transformer", "transformer-no-norm", "model.norm=none"),
    "no residual": small("transformer", "transformer-no-residual", "model.residual=false"),
    "neither": small("transformer", "transformer-neither", "model.residual=false", "model.norm=none", seeds=1),
}


@dataclass(frozen=True)
class Case:
    """A sentence with "it" in it, and where its candidates are."""

    src: str
    tgt: str
    antecedent: Mapping[str, int]


@dataclass(frozen=True)
class Look:
    """Where the pronoun of a case looks, "L H S" over its words, and how much more at the right antecedent, "L H"."""

    case: Case
    row: npt.NDArray[np.float64]
    difference: npt.NDArray[np.float64]


def validation_cases(run: Path) -> list[Case]:
    """Those of the validation set, as the run left it behind."""
    folder = run / "translations"
    columns = [
        (folder / f"valid.{name}").read_text(encoding="utf-8").splitlines() for name in ("src", "ref", "meta.jsonl")
    ]
    return [
        Case(src, tgt, antecedent)
        for src, tgt, meta in zip(*columns, strict=True)
        if (antecedent := json.loads(meta)["antecedent"]) and _is_it(src, antecedent)
    ]


def challenge_cases(seed: int) -> list[Case]:
    """Those of the challenge set of the corpus with this seed, in pairs of twins."""
    return [
        Case(contrast.src, contrast.good, contrast.antecedent)
        for contrast in challenge(seed=seed, per_tag=PER_TAG)
        if contrast.antecedent and _is_it(contrast.src, contrast.antecedent)
    ]


def _is_it(src: str, antecedent: Mapping[str, int]) -> bool:
    return words(src)[antecedent["pronoun"]].lower() == "it"


def look(translator: Translator, cases: Sequence[Case]) -> list[Look]:
    """Where the pronouns of the cases look.

    Raises:
        HeedError: if the model's encoder has no self-attention.
    """
    looks = []
    for case, seen in zip(cases, translator.attend([c.src for c in cases], [c.tgt for c in cases]), strict=True):
        if seen.encoder_self is None:
            raise HeedError("this model's encoder has no self-attention")
        shares = word_shares(seen.src_pieces, words(case.src))
        maps = pool(seen.encoder_self, shares, shares)
        looks.append(Look(case, maps[:, :, case.antecedent["pronoun"]], mass_difference(maps, case.antecedent)))
    return looks


def measure(run: Path, translator: Translator, *, seed: int) -> tuple[AntecedentReport, list[Look]]:
    """The head chosen on the run's validation sentences, and what it does on the challenge set, with all its looks.

    In the challenge set every scene is told twice, once for each antecedent: a head that always prefers the first
    noun, or the subject, gets 0 there.
    """
    valid, challenged = (look(translator, cases) for cases in (validation_cases(run), challenge_cases(seed)))
    differences = (np.stack([one.difference for one in looks]) for looks in (valid, challenged))
    return report(*differences), challenged


def middle_twins(looks: Sequence[Look], head: tuple[int, int]) -> tuple[Look, Look]:
    """The two tellings of one scene whose difference is the median one."""
    twins = [(looks[i], looks[i + 1]) for i in range(0, len(looks) - 1, 2)]
    twins.sort(key=lambda pair: float(pair[0].difference[head] + pair[1].difference[head]))
    return twins[len(twins) // 2]


def drawn(found: AntecedentReport, looks: Sequence[Look]) -> list[str]:
    """The distribution over the challenge set, and the middle twins, as figures."""
    head = found.layer - 1, found.head - 1
    values = [float(one.difference[head]) for one in looks]
    figures = [
        caption(
            f"Attention from “it”, layer {found.layer}, head {found.head}: right − wrong antecedent, challenge set"
        ),
        histogram(values, name="Distribution of the difference", x="attention to the right − to the wrong antecedent"),
        caption("A scene in the middle of the distribution, told for either antecedent"),
    ]
    for one in middle_twins(looks, head):
        right, wrong = (words(one.case.src)[one.case.antecedent[name]] for name in ("right", "wrong"))
        row = WordMap(words(one.case.src), [f"it (= {right}, not {wrong})"], one.row[head][None])
        figures.append(f'<div class="side-0">{heat_map(row, name=one.case.src)}</div>')
    return figures


def experiment(laboratory: Laboratory) -> Finding:
    (run,) = laboratory.runs(LONG)
    found, looks = measure(run.folder, run.translator, seed=1)
    stacks = {label: laboratory.runs(recipe) for label, recipe in STACKS.items()}
    bleu = {label: spread(one.bleu("valid") for one in runs) for label, runs in stacks.items()}
    low, high = found.challenge.interval
    looks_right = low > 0
    needed = all(
        max(bleu[label]["values"]) < min(bleu["residual and norm"]["values"])
        for label in STACKS
        if label != "residual and norm"
    )
    return Finding(
        held=looks_right and needed,
        summary=(
            f"The encoder head that looks best on validation (layer {found.layer}, head {found.head}) gives the right "
            f"antecedent {found.challenge.mean:+.2f} [{low:+.2f}, {high:+.2f}] more of the attention from “it” than "
            f"the wrong one on {found.challenge.number} challenge sentences; in {found.challenge.positive:.0%} of "
            f"them it gives more. Valid BLEU with residual and norm {shown(bleu['residual and norm'])}, "
            + ", ".join(f"{label} {shown(bleu[label])}" for label in STACKS if label != "residual and norm")
            + "."
        ),
        numbers={
            "difference": {
                split: {
                    "sentences": of.number,
                    "mean": of.mean,
                    "interval": list(of.interval),
                    "quantiles": list(of.quantiles),
                    "positive": of.positive,
                }
                for split, of in (("valid", found.valid), ("challenge", found.challenge))
            },
            "by head on challenge": found.by_head,
            "it held": looks_right,
            "valid bleu": bleu,
            "residual and norm held": needed,
        },
        figures=[
            *drawn(found, looks),
            caption("Training with and without residual sums and norms"),
            line_plot(
                [Line(label, runs[0].curve("nll")) for label, runs in stacks.items()],
                name="Training loss",
                x="step",
                y="Training loss, nats a token (seed 1)",
            ),
            table(["", "valid BLEU"], [[label, shown(bleu[label])] for label in STACKS]),
        ],
    )


CLAIM = Claim(
    name="antecedent",
    claim="“it” looks at what it means; residual sums and norms make a deep stack trainable.",
    measurement=(
        "Encoder self-attention from “it” to its right minus its wrong antecedent, for the head that does best on "
        "validation sentences, over the challenge set (a head with a constant preference gets 0); and training without "
        "residual sums, norms or both. It holds if the mean difference is above 0 (95 % bootstrap interval) and every "
        "removal costs BLEU for every seed."
    ),
    recipes=(LONG, *STACKS.values()),
    experiment=experiment,
)
