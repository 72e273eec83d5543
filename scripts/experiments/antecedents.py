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
import math
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
from heed.compare.models import load_greedy_translator
from heed.errors import HeedError
from heed.plot.attention_map import save_png
from heed.plot.canvas import FULL, INK, SOFT_INK, WHITE, Canvas, TextStyle, shade
from heed.synthetic import split_punctuation

PARTS: Mapping[Part, str] = {"encoder": "from “it”", "decoder": "when writing er, sie or es"}

LEFT, WIDTH, HEIGHT, MARGIN, CELL_HEIGHT = 64, 800, 200, 20, 32
"""Pixels: left edge, width and height of the histogram, margin of the picture, height of a weight's cell."""
BINS = 40
BAR = FULL * 2 // 3
"""Palette index of the histogram."""
SMALLEST_NUMBER = 0.05
"""Smaller weights are not written into their cells."""
HEADING, LABEL, NOTE = TextStyle(15, bold=True), TextStyle(12), TextStyle(11, SOFT_INK)


def draw(path: Path, title: str, report: AntecedentReport, found: Sequence[PronounAttention]) -> None:
    """Draw the distribution over the challenge set, and the attention in the two versions of the median scene."""
    head = report.layer - 1, report.head - 1
    canvas = Canvas(LEFT + WIDTH + MARGIN, bottom=MARGIN, scale=2)
    canvas.add_text(MARGIN, canvas.bottom + 8, f"{title}: layer {report.layer}, head {report.head}", HEADING)
    canvas.bottom += 50
    _add_histogram(canvas, [float(one.difference[head]) for one in found], report.challenge.mean)
    for one in median_twins(found, head):
        _add_scene(canvas, one, head)
    canvas.bottom += MARGIN
    path.parent.mkdir(exist_ok=True)
    save_png(canvas.render(), path)


def _add_histogram(canvas: Canvas, values: Sequence[float], mean: float) -> None:
    counts, edges = np.histogram(values, bins=np.linspace(-1, 1, BINS + 1))
    top, bottom = canvas.bottom, canvas.bottom + HEIGHT

    def across(value: float) -> float:
        return LEFT + (value + 1) / 2 * WIDTH

    for count, edge in zip(counts, edges[:-1], strict=True):
        height = round(HEIGHT * int(count) / int(counts.max()))
        canvas.add_tiles(across(edge), bottom - height, np.full((height, WIDTH // BINS - 1), BAR, np.uint8))
    canvas.add_tiles(LEFT, bottom, np.full((1, WIDTH), INK, np.uint8))
    canvas.add_tiles(across(0), top, np.full((HEIGHT, 1), INK, np.uint8))
    for dash in range(0, HEIGHT, 8):
        canvas.add_tiles(across(mean), top + dash, np.full((4, 2), INK, np.uint8))
    canvas.add_text(across(mean), top - 10, f"mean {mean:+.2f}".replace("-", "−"), LABEL, anchor="m")
    canvas.add_text(LEFT - 8, top, f"{counts.max()}", NOTE, anchor="r")
    canvas.add_text(LEFT - 8, bottom, "0", NOTE, anchor="r")
    for tick in (-1.0, -0.5, 0.0, 0.5, 1.0):
        canvas.add_text(across(tick), bottom + 14, f"{tick:g}".replace("-", "−"), NOTE, anchor="m")
    canvas.add_text(
        LEFT + WIDTH / 2,
        bottom + 34,
        f"attention to the right − to the wrong antecedent, in {len(values)} challenge sentences",
        LABEL,
        anchor="m",
    )
    canvas.bottom = bottom + 44


def _add_scene(canvas: Canvas, one: PronounAttention, head: tuple[int, int]) -> None:
    """Add a sentence, and below each word the attention that it gets."""
    words, roles = split_punctuation(one.case.src), {word: role for role, word in one.case.antecedent.items()}
    cell = WIDTH // len(words)
    top = canvas.bottom + 16 + math.ceil(max(LABEL.width(word) for word in words))
    weights = one.weights[head]
    canvas.add_tiles(LEFT, top, shade(weights[None]).repeat(CELL_HEIGHT, 0).repeat(cell, 1))
    for position, (word, weight) in enumerate(zip(words, weights.tolist(), strict=True)):
        middle, role = LEFT + cell * (position + 0.5), roles.get(position)
        style = TextStyle(LABEL.size, bold=role is not None)
        canvas.add_text(middle, top - 6, word, style, vertical=True)
        if role:
            canvas.add_text(middle, top + CELL_HEIGHT + 11, role, NOTE, anchor="m")
        if weight >= SMALLEST_NUMBER:
            number = TextStyle(LABEL.size, WHITE if weight > 0.3 else INK)
            canvas.add_text(middle, top + CELL_HEIGHT / 2, f"{weight:.2f}", number, anchor="m")
    canvas.bottom = top + CELL_HEIGHT + 20


def measure_run(run: Path) -> tuple[dict[Part, AntecedentReport], SenseReport]:
    """Measure a run and write its pictures.

    Raises:
        HeedError: the run is on another corpus, or its model lacks one of the attentions.
    """
    config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    if (results["data"], results["src_lang"]) != ("synthetic", "en"):
        raise HeedError("antecedents are known for data=synthetic with English sources only")
    translator = load_greedy_translator(run)
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
