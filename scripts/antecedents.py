"""Does "it" look at what it means? Encoder self-attention from the pronoun to its right minus its wrong antecedent.

    python scripts/antecedents.py RUN [RUN …]

Runs of data=synthetic, English to German. The head that looks best on the run's validation sentences is measured on
the challenge set, in which every scene is told twice, once for each antecedent: a head that always prefers the first
noun, or the subject, gets 0 there. Every run's attention/ folder receives antecedents.png, the distribution and the
twins of median difference drawn.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml

from heed.data.synthetic import challenge, words
from heed.decoding import GreedySearch
from heed.errors import HeedError
from heed.evaluation.antecedents import AntecedentReport, mass_difference, report
from heed.evaluation.words import pool, word_shares
from heed.model_folder import load
from heed.translator import Translator

PER_TAG = 400


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
    """Those of the challenge set of the run's corpus, in pairs of twins."""
    return [
        Case(contrast.src, contrast.good, contrast.antecedent)
        for contrast in challenge(seed=seed, per_tag=PER_TAG)
        if contrast.antecedent and _is_it(contrast.src, contrast.antecedent)
    ]


def _is_it(src: str, antecedent: Mapping[str, int]) -> bool:
    return words(src)[antecedent["pronoun"]].lower() == "it"


def look(translator: Translator, cases: Sequence[Case]) -> list[Look]:
    """Where the pronouns of the cases look."""
    looks = []
    for case, seen in zip(cases, translator.attend([c.src for c in cases], [c.tgt for c in cases]), strict=True):
        if seen.encoder_self is None:
            raise HeedError("this model's encoder has no self-attention")
        shares = word_shares(seen.src_pieces, words(case.src))
        maps = pool(seen.encoder_self, shares, shares)
        looks.append(Look(case, maps[:, :, case.antecedent["pronoun"]], mass_difference(maps, case.antecedent)))
    return looks


def draw(path: Path, title: str, found: AntecedentReport, looks: Sequence[Look]) -> None:
    """The distribution over the challenge set, and the looks of two twins in the middle of it."""
    from matplotlib.figure import Figure

    head = found.layer - 1, found.head - 1
    values = [float(one.difference[head]) for one in looks]
    twins = [(looks[i], looks[i + 1]) for i in range(0, len(looks) - 1, 2)]
    twins.sort(key=lambda pair: float(pair[0].difference[head] + pair[1].difference[head]))
    example = twins[len(twins) // 2]

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(f"{title}: layer {found.layer}, head {found.head}")
    histogram, *rows = figure.subplots(3, 1, height_ratios=(3, 1, 1))
    histogram.hist(values, bins=np.linspace(-1, 1, 41), color="#4878a8")
    histogram.axvline(0, color="black", linewidth=0.8)
    histogram.axvline(found.challenge.mean, color="#c44e52", linestyle="--", label=f"mean {found.challenge.mean:+.2f}")
    histogram.legend(frameon=False)
    histogram.set(xlabel="attention from “it”: right − wrong antecedent", ylabel="challenge sentences")
    for axes, one in zip(rows, example, strict=True):
        weights, antecedent = one.row[head], one.case.antecedent
        axes.imshow(weights[None], aspect="auto", cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(weights)), words(one.case.src), rotation=30, ha="right")
        axes.set_yticks([0], ["it looks at"])
        for name, colour in (("right", "#2a9d4a"), ("wrong", "#c44e52"), ("pronoun", "black")):
            label = axes.get_xticklabels()[antecedent[name]]
            label.set(color=colour, fontweight="bold")
        for position, weight in enumerate(weights):
            if weight >= 0.05:
                axes.text(
                    position, 0, f"{weight:.2f}", ha="center", va="center", color="white" if weight > 0.5 else "black"
                )
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)


def measure(run: Path) -> AntecedentReport:
    """Look, choose, measure and draw."""
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    if (results["data"], results["src_lang"]) != ("synthetic", "en"):
        raise HeedError("its sources must be those of data=synthetic in English, whose antecedents are known")
    folder = load(run)
    search = GreedySearch(max_length_factor=2.0, max_length_extra=10)
    translator = Translator(folder.model, folder.tokenizer, search, batch_tokens=4096)
    valid, challenged = (
        look(translator, cases) for cases in (validation_cases(run), challenge_cases(config["data"]["seed"]))
    )
    found = report(np.stack([one.difference for one in valid]), np.stack([one.difference for one in challenged]))
    draw(run / "attention" / "antecedents.png", results["name"], found, challenged)
    return found


def main(runs: list[Path]) -> None:
    for run in runs:
        try:
            found = measure(run)
        except HeedError as error:
            print(f"{run}: {error}")
            continue
        print(f"{run}: chosen on valid: layer {found.layer}, head {found.head}. Right − wrong antecedent, from “it”:")
        for name, one in (("valid", found.valid), ("challenge", found.challenge)):
            low, high = one.interval
            print(
                f"  {name:<9} {one.number:>4} sentences  mean {one.mean:+.3f} [{low:+.3f}, {high:+.3f}]  "
                f"positive {one.positive:.1%}  min/quartiles/max {' '.join(f'{q:+.2f}' for q in one.quantiles)}"
            )
        for layer, means in enumerate(found.by_head, start=1):
            print(f"  layer {layer} on challenge, mean by head: {' '.join(f'{mean:+.3f}' for mean in means)}")


if __name__ == "__main__":
    main([Path(run) for run in sys.argv[1:]])
