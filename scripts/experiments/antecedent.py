"""What "it" looks at; and what residual sums and norms are for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments import senses
from experiments.antecedent_statistics import AntecedentReport, mass_difference, report
from experiments.claim import Claim, Finding
from experiments.laboratory import Laboratory, shown, spread
from experiments.plots import Line, caption, histogram, line_plot, table
from experiments.recipes import LONG_STEPS, TRANSFORMER, TRANSFORMER_LONGER, small
from heed.compare.challenge import contrastive_accuracy
from heed.data.synthetic import challenge, split_punctuation
from heed.errors import HeedError
from heed.evaluation.words import pool, word_shares
from heed.inference.translator import Translator
from heed.plot.svg import heat_map

PER_TAG = 400

STACKS = {
    "residual and norm": TRANSFORMER,
    "no norm": small("transformer", "transformer-no-norm", "model.norm=none", seeds=1),
    "no residual": small("transformer", "transformer-no-residual", "model.residual=false", seeds=1),
    "neither": small("transformer", "transformer-neither", "model.residual=false", "model.norm=none", seeds=1),
}


@dataclass(frozen=True)
class Case:
    """A sentence with "it" in it, and where its candidates are."""

    src: str
    tgt: str
    antecedent: Mapping[str, int]


Place = Literal["encoder", "decoder"]
"""Self-attention of the encoder, from "it"; or cross-attention of the decoder, when it writes er, sie or es."""


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
    return split_punctuation(src)[antecedent["pronoun"]].lower() == "it"


def look(translator: Translator, cases: Sequence[Case], place: Place) -> list[Look]:
    """Where the pronouns of the cases look.

    Raises:
        HeedError: if the model has no such attention.
    """
    looks = []
    for case, seen in zip(cases, translator.attend([c.src for c in cases], [c.tgt for c in cases]), strict=True):
        weights = seen.encoder_self if place == "encoder" else seen.cross
        if weights is None:
            raise HeedError(f"this model's {place} has no attention to the source")
        src_words, tgt_words = split_punctuation(case.src), split_punctuation(case.tgt)
        src = word_shares(seen.src_pieces, src_words)
        tgt = src if place == "encoder" else word_shares(seen.tgt_pieces, tgt_words)
        maps = pool(weights, tgt, src)
        row = case.antecedent["pronoun"] if place == "encoder" else written(tgt_words)
        difference = mass_difference(maps, {**case.antecedent, "pronoun": row})
        looks.append(Look(case, maps[:, :, row], difference))
    return looks


def written(tgt_words: Sequence[str]) -> int:
    """Where the German pronoun stands: last of what such a sentence calls er, sie or es."""
    return max(position for position, word in enumerate(tgt_words) if word.lower() in ("er", "sie", "es"))


def measure(run: Path, translator: Translator, place: Place, *, seed: int) -> tuple[AntecedentReport, list[Look]]:
    """The head chosen on the run's validation sentences, and what it does on the challenge set, with all its looks.

    In the challenge set every scene is told twice, once for each antecedent: a head that always prefers the first
    noun, or the subject, gets 0 there.
    """
    valid, challenged = (look(translator, cases, place) for cases in (validation_cases(run), challenge_cases(seed)))
    differences = (np.stack([one.difference for one in looks]) for looks in (valid, challenged))
    return report(*differences), challenged


def middle_twins(looks: Sequence[Look], head: tuple[int, int]) -> tuple[Look, Look]:
    """The two tellings of one scene whose difference is the median one."""
    twins = [(looks[i], looks[i + 1]) for i in range(0, len(looks) - 1, 2)]
    twins.sort(key=lambda pair: float(pair[0].difference[head] + pair[1].difference[head]))
    return twins[len(twins) // 2]


def drawn(found: AntecedentReport, looks: Sequence[Look], place: Place) -> list[str]:
    """The distribution over the challenge set, and the middle twins, as figures."""
    head = found.layer - 1, found.head - 1
    values = [float(one.difference[head]) for one in looks]
    what = "Encoder self-attention from “it”" if place == "encoder" else "Cross-attention when er, sie or es is written"
    figures = [
        caption(f"{what}, layer {found.layer}, head {found.head}"),
        histogram(values, name=what, x="attention to the right − to the wrong antecedent, challenge set"),
    ]
    for one in middle_twins(looks, head):
        src, antecedent = split_punctuation(one.case.src), one.case.antecedent
        pronoun = (
            "it" if place == "encoder" else split_punctuation(one.case.tgt)[written(split_punctuation(one.case.tgt))]
        )
        label = f"{pronoun} (= {src[antecedent['right']]})"
        figure = heat_map([label], src, one.row[head][None], name=one.case.src)
        figures.append(f'<div class="side-0">{figure}</div>')
    return figures


def experiment(laboratory: Laboratory) -> Finding:
    runs = laboratory.runs(TRANSFORMER_LONGER)
    from_it = [measure(run.folder, run.translator, "encoder", seed=1) for run in runs]
    writing = [measure(run.folder, run.translator, "decoder", seed=1) for run in runs]
    nouns = [senses.measure(run.translator, seed=1, per_tag=PER_TAG) for run in runs]
    contrasts = [contrast for contrast in challenge(seed=1, per_tag=PER_TAG) if contrast.tag == "pronoun"]
    accuracy = spread(contrastive_accuracy(run.translator, contrasts)["pronoun"].share for run in runs)
    stacks = {label: laboratory.runs(recipe) for label, recipe in STACKS.items()}
    bleu = {label: spread(one.bleu("valid") for one in runs) for label, runs in stacks.items()}
    whole, *without = bleu.values()
    looks_right = all(found.challenge.interval[0] > 0 for found, _ in from_it)
    needed = all(max(of["values"]) < min(whole["values"]) for of in without)
    return Finding(
        held=looks_right and needed,
        summary=(
            f"Models that translate {accuracy['mean']:.1%} of the ambiguous pronouns right: their encoder heads that "
            f"look best on validation give the right antecedent {_means(from_it)} more of the attention from “it” "
            "than the wrong one. The decoder heads that look best when er, sie or es is written give it "
            f"{_means(writing)} more: "
            + ("both look. " if looks_right else "what “it” means is settled there. ")
            + "In the encoder, an ambiguous noun gives the words that decide it "
            + " and ".join(f"{noun.mass:.2f}" for noun in nouns)
            + f" of a head's attention; they are {nouns[0].share:.0%} of the words. "
            + f"Valid BLEU with residual and norm {shown(whole)}, "
            + ", ".join(f"{label} {shown(bleu[label])}" for label in list(STACKS)[1:])
            + "."
        ),
        numbers={
            "pronouns right": accuracy,
            "encoder, from it": [asdict(found) for found, _ in from_it],
            "encoder, from an ambiguous noun": [asdict(noun) for noun in nouns],
            "decoder, writing the pronoun": [asdict(found) for found, _ in writing],
            "it held": looks_right,
            "valid bleu": bleu,
            "residual and norm held": needed,
        },
        figures=[
            *drawn(*from_it[0], "encoder"),
            *drawn(*writing[0], "decoder"),
            caption("Training with and without residual sums and norms"),
            line_plot(
                [Line(label, runs[0].curve("nll")) for label, runs in stacks.items()],
                name="Training loss",
                x="step",
                y="Training loss, nats a token (seed 1), log scale",
                log_y=True,
            ),
            table(["", "valid BLEU"], [[label, shown(bleu[label])] for label in STACKS]),
        ],
    )


def _means(measured: Sequence[tuple[AntecedentReport, list[Look]]]) -> str:
    """Of every seed on the challenge set, with its interval."""
    challenges = [found.challenge for found, _ in measured]
    return " and ".join(f"{_signed(of.mean)} [{', '.join(map(_signed, of.interval))}]" for of in challenges)


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")


CLAIM = Claim(
    name="antecedent",
    claim="“it” looks at what it means; residual sums and norms make a deep stack trainable.",
    measurement=(
        "Encoder self-attention from “it” to its right minus its wrong antecedent, for the head that does best on "
        "validation sentences, over the challenge set (a head with a constant preference gets 0); the same for the "
        "decoder's cross-attention when it writes the pronoun, both "
        f"after {LONG_STEPS:,} steps; and training without residual sums, norms or both. It "
        "holds if the encoder's mean difference is above 0 (95 % bootstrap interval) and every removal costs BLEU, for "
        "every seed."
    ),
    recipes=(TRANSFORMER_LONGER, *STACKS.values()),
    experiment=experiment,
)
