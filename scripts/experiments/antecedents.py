"""Measure attention from pronouns to their antecedents, and from ambiguous nouns to the words that decide their sense.

    python scripts/experiments/antecedents.py RUN [RUN …]

RUN is a run of data=synthetic, English to German. The head with the greatest attention to the right minus the wrong
antecedent is chosen on the run's validation sentences and measured on the challenge set. The challenge set has each
scene twice, once for each antecedent, so a head that always prefers the first noun or the subject gets 0. This is done
for the encoder's self-attention from "it", and for the decoder's cross-attention when it writes er, sie or es.

Writes antecedents-encoder.png and antecedents-decoder.png to the attention/ folder of each run: the distribution over
the challenge set, and the two versions of the scene with the median difference.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import sense_attention
from experiments.antecedent_attention import Part, PronounAttention, measure, median_twins
from experiments.antecedent_statistics import AntecedentReport
from experiments.sense_attention import SenseReport
from heed.compare.models import load_translator
from heed.data.synthetic import split_punctuation
from heed.errors import HeedError

PARTS: Mapping[Part, str] = {"encoder": "from “it”", "decoder": "when writing er, sie or es"}


def draw(path: Path, title: str, report: AntecedentReport, found: Sequence[PronounAttention]) -> None:
    """Draw the distribution over the challenge set, and the attention in the two versions of the median scene."""
    from matplotlib.figure import Figure

    head = report.layer - 1, report.head - 1
    values = [float(one.difference[head]) for one in found]
    examples = median_twins(found, head)

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(f"{title}: layer {report.layer}, head {report.head}")
    histogram, *rows = figure.subplots(3, 1, height_ratios=(3, 1, 1))
    histogram.hist(values, bins=np.linspace(-1, 1, 41), color="#4878a8")
    histogram.axvline(0, color="black", linewidth=0.8)
    histogram.axvline(
        report.challenge.mean, color="#c44e52", linestyle="--", label=f"mean {report.challenge.mean:+.2f}"
    )
    histogram.legend(frameon=False)
    histogram.set(xlabel="attention: right − wrong antecedent", ylabel="challenge sentences")
    for axes, one in zip(rows, examples, strict=True):
        weights, antecedent = one.weights[head], one.case.antecedent
        axes.imshow(weights[None], aspect="auto", cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(weights)), split_punctuation(one.case.src), rotation=30, ha="right")
        axes.set_yticks([0], ["attention"])
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


def measure_run(run: Path) -> tuple[dict[Part, AntecedentReport], SenseReport]:
    """Measure a run and write its pictures.

    Raises:
        HeedError: the run is on another corpus, or its model lacks one of the attentions.
    """
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    if (results["data"], results["src_lang"]) != ("synthetic", "en"):
        raise HeedError("antecedents are known for data=synthetic with English sources only")
    translator = load_translator(run)
    reports: dict[Part, AntecedentReport] = {}
    for part, title in PARTS.items():
        reports[part], found = measure(run, translator, part, seed=config["data"]["seed"])
        draw(run / "attention" / f"antecedents-{part}.png", f"{results['name']}, {title}", reports[part], found)
    return reports, sense_attention.measure(translator, seed=config["data"]["seed"])


def main(argv: list[str]) -> None:
    """Measure each run and print the numbers; a run that cannot be measured is reported and skipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    for run in parser.parse_args(argv).runs:
        try:
            reports, senses = measure_run(run)
        except HeedError as error:
            print(f"{run}: {error}")
            continue
        print(f"{run}: attention to the right − to the wrong antecedent")
        for part, report in reports.items():
            print(f"  {part}, {PARTS[part]}; chosen on valid: layer {report.layer}, head {report.head}")
            for name, one in (("valid", report.valid), ("challenge", report.challenge)):
                low, high = one.interval
                print(
                    f"    {name:<9} {one.number:>4} sentences  mean {one.mean:+.3f} [{low:+.3f}, {high:+.3f}]  "
                    f"positive {one.positive:.1%}  min/quartiles/max {' '.join(f'{q:+.2f}' for q in one.quantiles)}"
                )
            for layer, means in enumerate(report.by_head, start=1):
                print(f"    layer {layer} on challenge, mean by head: {' '.join(f'{mean:+.3f}' for mean in means)}")
        print(
            f"  encoder, from an ambiguous noun to the {senses.share:.0%} of the words that decide it: "
            f"{senses.mass:.2f} of the attention of layer {senses.layer}, head {senses.head} (chosen on other scenes; "
            f"{senses.sentences} sentences)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
