"""Draw docs/cover.png: the cross-attention of one model when it writes the pronoun of two similar sentences.

    heed train folder=runs/transformer
    heed attend --model runs/transformer --npz maps.npz \\
        "The animal didn't cross the street because it was too tired." \\
        "The animal didn't cross the street because it was too wide."
    python scripts/docs/cover.py maps.npz docs/cover.png
"""

import argparse
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from matplotlib.textpath import TextPath
from PIL import Image

from heed.evaluation.words import pool, split_punctuation, word_shares
from heed.symbols import WORD_START

PRONOUNS = ("er", "sie", "es")
BLUE, ORANGE, INK, GREY = "#1f6fb2", "#c8501e", "#1d1f24", "#8a8f99"
WIDTH, HEIGHT, SPACE = 8.0, 4.25, 0.17
"""Size of the picture, and the space between words, in inches."""
SIZE, FAMILY = 14, "DejaVu Sans"
"""Size of the letters in points, and their font, a part of matplotlib."""
SMALLEST = 0.03
"""Smaller weights are not drawn."""


@dataclass(frozen=True)
class Words:
    """A translation with the attention of its words to the source's words."""

    source: list[str]
    target: list[str]
    weights: npt.NDArray[Any]
    """By layer and head, "L H J I"."""

    @property
    def pronoun(self) -> int:
        """The position of the pronoun in the target: the last one, because the first words may be one, too."""
        return max(i for i, word in enumerate(self.target) if word.lower() in PRONOUNS)


def words_of(src_pieces: list[str], tgt_pieces: list[str], cross: npt.NDArray[Any]) -> Words:
    """Pool attention over pieces, ending in EOS, to attention over words."""
    source, target = (
        split_punctuation("".join(pieces[:-1]).replace(WORD_START, " ")) for pieces in (src_pieces, tgt_pieces)
    )
    return Words(source, target, pool(cross, word_shares(tgt_pieces, target), word_shares(src_pieces, source)))


def clearest_head(sentences: list[Words]) -> tuple[int, int]:
    """Return (layer, head) whose attention from the pronoun differs most between the sentences."""
    first, second = (words.weights[:, :, words.pronoun] for words in sentences)
    layer, head = np.unravel_index(np.abs(first - second).sum(-1).argmax(), first.shape[:2])
    return int(layer), int(head)


def draw(sentences: list[Words]) -> Figure:
    """Draw each source above its translation, joined by curves as strong as the attention; color the pronoun's."""
    layer, head = clearest_head(sentences)
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=200, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    for words, top, colour in zip(sentences, (HEIGHT - 0.3, HEIGHT - 2.45), (BLUE, ORANGE), strict=True):
        weights = words.weights[layer, head]
        source_x, target_x = _centres(words.source), _centres(words.target)
        bottom = top - 1.48
        for t, s in np.argwhere(weights > SMALLEST):
            alpha = min(1.0, float(weights[t, s])) * (1.0 if t == words.pronoun else 0.4)
            start, end, middle = (source_x[s], top - 0.16), (target_x[t], bottom + 0.18), (top + bottom) / 2
            points = [start, (start[0], middle), (end[0], middle), end]  # leaves both words vertically
            curve = Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
            style: Any = {"color": colour if t == words.pronoun else GREY, "alpha": alpha, "lw": 0.5 + 4.5 * alpha}
            axes.add_patch(PathPatch(curve, fill=False, capstyle="round", **style))
        most_attended = int(weights[words.pronoun].argmax())
        _text(axes, source_x, top, words.source, most_attended, colour)
        _text(axes, target_x, bottom, words.target, words.pronoun, colour)
    return figure


def _text(axes: Axes, centres: list[float], y: float, words: list[str], marked: int, colour: str) -> None:
    """Write the words of a sentence, one of them bold and coloured."""
    for i, (x, word) in enumerate(zip(centres, words, strict=True)):
        text = axes.text(x, y, word, ha="center", va="center", size=SIZE, family=FAMILY, color=INK)
        if i == marked:
            text.set(color=colour, weight="bold")


def _centres(words: list[str]) -> list[float]:
    """Return the horizontal centre of each word in inches, the sentence centred on the picture."""
    font = FontProperties(family=FAMILY, weight="bold")
    widths = [TextPath((0, 0), word, size=SIZE, prop=font).get_extents().width / 72 for word in words]
    gaps = [0.02 if word in ".,?!" else SPACE for word in words[1:]]
    start = (WIDTH - sum(widths) - sum(gaps)) / 2
    centres = []
    for width, gap in zip(widths, [*gaps, 0.0], strict=True):
        centres.append(start + width / 2)
        start += width + gap
    return centres


def main() -> None:
    """Read the maps of two sentences and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("maps", type=Path, help="the file of heed attend --npz")
    parser.add_argument("out", type=Path, help="the picture")
    args = parser.parse_args()
    with np.load(args.maps) as maps:
        sentences = [words_of(maps[f"{i}.src"].tolist(), maps[f"{i}.tgt"].tolist(), maps[f"{i}.cross"]) for i in (0, 1)]
    pixels = BytesIO()
    draw(sentences).savefig(pixels, format="png")
    Image.open(pixels).convert("RGB").quantize(64).save(args.out, optimize=True)


if __name__ == "__main__":
    main()
