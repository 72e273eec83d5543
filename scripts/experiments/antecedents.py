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
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import sense_attention
from experiments.antecedent_attention import TITLES, AntecedentReport, Part, draw, measure
from experiments.sense_attention import SenseReport
from heed.compare.models import load_translator
from heed.errors import HeedError


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
    (run / "attention").mkdir(exist_ok=True)
    for part, title in TITLES.items():
        reports[part], found = measure(run, translator, part, seed=config["data"]["seed"])
        figure = draw(reports[part], found, f"{results['name']}, {title}")
        figure.savefig(run / "attention" / f"antecedents-{part}.png", dpi=200)
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
            print(f"  {part}, {TITLES[part]}; chosen on valid: layer {report.layer}, head {report.head}")
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
