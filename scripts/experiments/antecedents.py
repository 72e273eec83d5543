"""Measure attention from pronouns to their antecedents, and from ambiguous nouns to the words that decide their sense.

    python scripts/experiments/antecedents.py RUN [RUN …]

RUN is a run of data=synthetic, English to German. The head with the greatest attention to the right minus the wrong
antecedent is chosen on the run's validation sentences and measured on the challenge set. The challenge set has each
scene twice, once for each antecedent, so a head that always prefers the first noun or the subject gets 0. This is done
for the encoder's self-attention from "it", and for the decoder's cross-attention when it writes er, sie or es.

Prints the numbers as JSON. Writes antecedents-encoder.png and antecedents-decoder.png to the attention/ folder of each
run: the distribution over the challenge set, and the two versions of the scene with the median difference.
"""

import argparse
import json
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments import sense_attention
from experiments.antecedent_attention import TITLES, AntecedentReport, draw, measure
from experiments.measures import plain
from experiments.runner import TrainedModel
from experiments.sense_attention import SenseReport
from heed.errors import HeedError


def measure_run(folder: Path) -> dict[str, AntecedentReport | SenseReport]:
    """Measure a run and write its pictures.

    Raises:
        HeedError: the run is on another corpus, or its model lacks one of the attentions.
    """
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    run = TrainedModel(folder.name, config["seed"], folder)
    if (run.results["data"], run.results["src_lang"]) != ("synthetic", "en"):
        raise HeedError("antecedents are known for data=synthetic with English sources only")
    (folder / "attention").mkdir(exist_ok=True)
    reports: dict[str, AntecedentReport | SenseReport] = {}
    for part, title in TITLES.items():
        report, found = measure(run, part)
        reports[f"{part}, {title}"] = report
        figure = draw(report, found, f"{run.results['name']}, {title}")
        figure.savefig(folder / "attention" / f"antecedents-{part}.png", dpi=200)
    return {**reports, "encoder, from an ambiguous noun": sense_attention.measure(run.translator)}


def main(argv: list[str]) -> None:
    """Measure each run and print the numbers as JSON; a run that cannot be measured is reported and skipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    for run in parser.parse_args(argv).runs:
        try:
            print(json.dumps({str(run): measure_run(run)}, indent=1, ensure_ascii=False, default=plain))
        except HeedError as error:
            print(f"{run}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
