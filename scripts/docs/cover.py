"""Draw docs/cover.png: the cross-attention of one model when it writes the pronoun of two similar sentences.

    python scripts/docs/cover.py RUN [--out docs/cover.png]

RUN is a transformer of `heed train trainer.max_steps=3000 schedule.warmup_steps=100`.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve

from heed.data.synthetic import split_punctuation
from heed.inference.loading import build_search, load_models
from heed.inference.translator import Attended, Translator
from heed.symbols import WORD_START

SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
)
PRONOUNS = ("er", "sie", "es")
BLUE, ORANGE, INK, GREY = "#1f6fb2", "#c8501e", "#1d1f24", "#8a8f99"
LETTER, SPACE = 0.105, 0.16
"""Mean width of a letter, and the space between words, in inches."""


@dataclass(frozen=True)
class Words:
    """A translation with the attention of its words to the source's words."""

    source: list[str]
    target: list[str]
    weights: npt.NDArray[Any]
    """ "layers heads target source" """

    @property
    def pronoun(self) -> int:
        """The position of the pronoun in the target: the last one, because the first words may be one, too."""
        return max(i for i, word in enumerate(self.target) if word.lower() in PRONOUNS)


def words_of(pair: Attended) -> Words:
    """Sum the attention over the pieces of a source word; a target word has the attention of its first piece."""
    assert pair.cross is not None
    source, target = _group(pair.src_pieces[:-1]), _group(pair.tgt_pieces[:-1])
    columns = np.stack([pair.cross[..., list(pieces)].sum(-1) for _, pieces in source], axis=-1)
    weights = columns[:, :, [pieces[0] for _, pieces in target]]
    return Words([word for word, _ in source], [word for word, _ in target], weights)


def _group(pieces: list[str]) -> list[tuple[str, list[int]]]:
    """Return the words of a sentence with the positions of their pieces."""
    text = "".join(pieces).replace(WORD_START, " ")
    words, found, position = split_punctuation(text), [], 0
    for word in words:
        members, length = [], 0
        while length < len(word):
            members.append(position)
            length += len(pieces[position].removeprefix(WORD_START))
            position += 1
        found.append((word, members))
    return found


def clearest_head(sentences: list[Words]) -> tuple[int, int]:
    """Return (layer, head) whose attention from the pronoun differs most between the sentences."""
    first, second = (words.weights[:, :, words.pronoun] for words in sentences)
    layer, head = np.unravel_index(np.abs(first - second).sum(-1).argmax(), first.shape[:2])
    return int(layer), int(head)


def draw(sentences: list[Words]) -> Figure:
    """Draw source above target, joined by curves as thick as the attention weight; the pronoun's are coloured."""
    layer, head = clearest_head(sentences)
    mpl.rcParams["font.family"] = "DejaVu Sans"
    figure = Figure(figsize=(10, 4.5), dpi=170, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 10), ylim=(0, 4.5))
    axes.axis("off")
    for words, top, colour in zip(sentences, (4.1, 1.9), (BLUE, ORANGE), strict=True):
        weights = words.weights[layer, head]
        source_x, target_x = _centres(words.source), _centres(words.target)
        looked_at = int(weights[words.pronoun].argmax())
        for t, row in enumerate(weights):
            is_pronoun = t == words.pronoun
            for s in np.flatnonzero(row > 0.03):
                points = [(target_x[t], top - 1.3), (target_x[t], top - 0.7), (source_x[s], top - 0.75), (source_x[s], top - 0.16)]
                codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
                style = {"color": colour if is_pronoun else GREY, "alpha": float(row[s]) * (1 if is_pronoun else 0.35)}
                axes.add_patch(PathPatch(Curve(points, codes), fill=False, lw=0.5 + (4.5 if is_pronoun else 2) * row[s], capstyle="round", **style))
        for positions, y, sentence, marked in (
            (source_x, top, words.source, looked_at),
            (target_x, top - 1.48, words.target, words.pronoun),
        ):
            for i, (x, word) in enumerate(zip(positions, sentence, strict=True)):
                bold = i == marked
                axes.text(x, y, word, ha="center", va="center", size=14, color=colour if bold else INK, weight="bold" if bold else "normal")
    return figure


def _centres(words: list[str]) -> list[float]:
    """Return the horizontal centre of each word in inches, the sentence centred on the picture."""
    widths = [_width(word) for word in words]
    gaps = [0.0 if word in ".,?!" else SPACE for word in words[1:]] + [0.0]
    start = (10 - sum(widths) - sum(gaps)) / 2
    centres = []
    for width, gap in zip(widths, gaps, strict=True):
        centres.append(start + width / 2)
        start += width + gap
    return centres


def _width(word: str) -> float:
    """Return the width of a word in inches at the size of the picture."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    box = TextPath((0, 0), word, size=14, prop=FontProperties(family="DejaVu Sans", weight="bold")).get_extents()
    return float(box.width) / 72


def main() -> None:
    """Translate the sentences and draw their attention."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, default=Path("docs/cover.png"))
    args = parser.parse_args()
    folder = load_models(args.run)
    translator = Translator(folder.model, folder.tokenizer, build_search(folder.config.get("search")), batch_tokens=1000)
    pairs = [words_of(pair) for pair in translator.attend(SENTENCES)]
    for words in pairs:
        print(" ".join(words.target), words.pronoun)
    draw(pairs).savefig(args.out)


if __name__ == "__main__":
    main()
