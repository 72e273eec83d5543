"""Does "it" look at what it means, and "bank" at what tells which bank? Attention from the pronoun to its right minus
its wrong antecedent, and from an ambiguous noun to the words that decide it.

    python scripts/antecedents.py RUN [RUN …]

Runs of data=synthetic, English to German. The head that looks best on the run's validation sentences is measured on
the challenge set, in which every scene is told twice, once for each antecedent: a head that always prefers the first
noun, or the subject, gets 0 there. So for the encoder's self-attention from "it", and for the decoder's cross-attention
when it writes er, sie or es. Every run's attention/ folder receives antecedents-encoder.png and -decoder.png, the
distribution and the twins of median difference drawn.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from experiments import senses
from experiments.antecedent import PER_TAG, Look, Place, measure, middle_twins
from experiments.antecedent_statistics import AntecedentReport
from experiments.senses import SenseReport
from heed.compare.models import load_translator
from heed.data.synthetic import split_punctuation
from heed.errors import HeedError

PLACES: Mapping[Place, str] = {"encoder": "from “it”", "decoder": "when writing er, sie or es"}


def draw(path: Path, title: str, found: AntecedentReport, looks: Sequence[Look]) -> None:
    """The distribution over the challenge set, and the looks of two twins in the middle of it."""
    from matplotlib.figure import Figure

    head = found.layer - 1, found.head - 1
    values = [float(one.difference[head]) for one in looks]
    example = middle_twins(looks, head)

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(f"{title}: layer {found.layer}, head {found.head}")
    histogram, *rows = figure.subplots(3, 1, height_ratios=(3, 1, 1))
    histogram.hist(values, bins=np.linspace(-1, 1, 41), color="#4878a8")
    histogram.axvline(0, color="black", linewidth=0.8)
    histogram.axvline(found.challenge.mean, color="#c44e52", linestyle="--", label=f"mean {found.challenge.mean:+.2f}")
    histogram.legend(frameon=False)
    histogram.set(xlabel="attention: right − wrong antecedent", ylabel="challenge sentences")
    for axes, one in zip(rows, example, strict=True):
        weights, antecedent = one.row[head], one.case.antecedent
        axes.imshow(weights[None], aspect="auto", cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(weights)), split_punctuation(one.case.src), rotation=30, ha="right")
        axes.set_yticks([0], ["looks at"])
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


def measured(run: Path) -> tuple[dict[Place, AntecedentReport], SenseReport]:
    """Look, choose, measure and draw."""
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    if (results["data"], results["src_lang"]) != ("synthetic", "en"):
        raise HeedError("its sources must be those of data=synthetic in English, whose antecedents are known")
    translator = load_translator(run)
    found: dict[Place, AntecedentReport] = {}
    for place, title in PLACES.items():
        found[place], looks = measure(run, translator, place, seed=config["data"]["seed"])
        draw(run / "attention" / f"antecedents-{place}.png", f"{results['name']}, {title}", found[place], looks)
    return found, senses.measure(translator, seed=config["data"]["seed"], per_tag=PER_TAG)


def main(runs: list[Path]) -> None:
    for run in runs:
        try:
            found, sense = measured(run)
        except HeedError as error:
            print(f"{run}: {error}")
            continue
        print(f"{run}: attention to the right − to the wrong antecedent")
        for place, of in found.items():
            print(f"  {place}, {PLACES[place]}; chosen on valid: layer {of.layer}, head {of.head}")
            for name, one in (("valid", of.valid), ("challenge", of.challenge)):
                low, high = one.interval
                print(
                    f"    {name:<9} {one.number:>4} sentences  mean {one.mean:+.3f} [{low:+.3f}, {high:+.3f}]  "
                    f"positive {one.positive:.1%}  min/quartiles/max {' '.join(f'{q:+.2f}' for q in one.quantiles)}"
                )
            for layer, means in enumerate(of.by_head, start=1):
                print(f"    layer {layer} on challenge, mean by head: {' '.join(f'{mean:+.3f}' for mean in means)}")
        print(
            f"  encoder, from an ambiguous noun to the {sense.share:.0%} of the words that decide it: "
            f"{sense.mass:.2f} of the attention of layer {sense.layer}, head {sense.head} (chosen on other scenes; "
            f"{sense.sentences} sentences)"
        )


if __name__ == "__main__":
    main([Path(run) for run in sys.argv[1:]])
