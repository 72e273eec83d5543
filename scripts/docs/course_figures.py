"""Draw the figures of docs/course/ from two trained models.

    heed train folder=runs/transformer
    heed train folder=runs/rnn model=rnn
    python scripts/docs/course_figures.py runs/transformer runs/rnn

The attention maps are those of the models, given the right translations. All other figures need no training.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import heed
from heed.evaluation.words import pool, split_punctuation, word_shares
from heed.functional.attention import attend, causal_mask
from heed.layers.attention_scores import SCORES, ScoreOptions
from heed.layers.positions import SinusoidalPositions
from heed.models.transformer import Transformer
from heed.plot.attention_map import piece_label
from heed.plot.fonts import save_figure
from heed.symbols import EOS, WORD_START

TIRED = "The animal didn't cross the street because it was too tired."
WIDE = "The animal didn't cross the street because it was too wide."
ES = "Das Tier überquerte die Straße nicht, weil es zu müde war."
SIE = "Das Tier überquerte die Straße nicht, weil sie zu breit war."
BANK = "I am going to the bank to deposit the cheque."
SARAH = "Sarah was walking in the park with her cat, Alex. It was tired."
ATE = "The man ate a fish yesterday."

WIDTH, HEIGHT = 9.6, 4.2
"""Inches."""
BLUE, ORANGE, INK, GREY = "#1f6fb2", "#c8501e", "#1d1f24", "#8a8f99"
RULE, PALE = "#ddd9d0", "#f0eee9"
PRONOUNS = ("er", "sie", "es")
STYLE = {
    "font.size": 13, "text.color": INK, "axes.titlesize": 13, "axes.titlelocation": "left", "axes.labelcolor": INK,
    "axes.edgecolor": GREY, "axes.spines.top": False, "axes.spines.right": False, "xtick.color": INK,
    "ytick.color": INK, "xtick.labelsize": 11, "ytick.labelsize": 11, "lines.linewidth": 2.2,
}  # fmt: skip
"""Large enough to be read when projected; the colours of heed's pages."""


@dataclass(frozen=True)
class Models:
    """The models whose attention is drawn."""

    rnn: heed.Translator
    transformer: heed.Translator


def _figure(width: float, height: float) -> Figure:
    return Figure((width, height), layout=ConstrainedLayoutEngine(h_pad=0.12))


# ---- maps of trained models


def alignment(models: Models) -> Figure:
    """The cross-attention of both models for a sentence: a soft word alignment."""
    figure = _figure(WIDTH, 4.8)
    for axes, (name, model) in zip(figure.subplots(1, 2), vars(models).items(), strict=True):
        pair = model.attend([TIRED], [ES])[0]
        label = {"rnn": "RNN", "transformer": "transformer, most informative head"}[name]
        pair.plot(ax=axes).set_title(label)
    return figure


def parameter_free(models: Models) -> Figure:
    """softmax(XXᵀ/√D) of the transformer's source embeddings, for two sentences."""
    figure = _figure(WIDTH, 4.9)
    for axes, sentence in zip(figure.subplots(1, 2), (BANK, SARAH), strict=True):
        pieces, weights = similarities(models.transformer, sentence)
        heat_map(axes, weights, pieces, pieces)
    return figure


def query_key_value(models: Models) -> Figure:
    """The scores XXᵀ of the embeddings, which are symmetric, and the weights of a learned head, which are not."""
    figure = _figure(WIDTH, 4.9)
    pieces, weights = similarities(models.transformer, ATE)
    left, right = figure.subplots(1, 2)
    heat_map(left, weights, pieces, pieces)
    left.set_title("softmax(XXᵀ/√D), nothing learned")
    models.transformer.attend([ATE])[0].plot(kind="encoder_self", ax=right).set_title("softmax(QKᵀ/√d_k), one head")
    return figure


def heads(models: Models) -> Figure:
    """All heads of the first encoder layer."""
    pair = models.transformer.attend([TIRED], [ES])[0]
    assert pair.encoder_self is not None
    weights = pair.encoder_self[0]
    figure = _figure(3.1 * len(weights), 3.9)
    for head, axes in enumerate(figure.subplots(1, len(weights), sharey=True, squeeze=False)[0]):
        heat_map(axes, weights[head], pair.src_pieces, pair.src_pieces)
        axes.set_xlabel(f"head {head + 1}")  # a title would be above the labels of the columns
    return figure


def pronoun(models: Models) -> Figure:
    """Where each head of the decoder attends when it writes the pronoun of two sentences."""
    figure = _figure(WIDTH, 6.4)
    pairs = models.transformer.attend([TIRED, WIDE], [ES, SIE])
    for axes, pair, colour in zip(figure.subplots(2), pairs, (BLUE, ORANGE), strict=True):
        assert pair.cross is not None
        words = words_of(pair.src_pieces, pair.tgt_pieces, pair.cross)
        weights = words.weights[:, :, words.pronoun]
        labels = [f"{WORD_START}layer {layer + 1}, head {head + 1}" for layer, head in np.ndindex(weights.shape[:2])]
        columns = [f"{WORD_START}{word}" for word in words.source]
        heat_map(axes, weights.reshape(len(labels), -1), labels, columns)
        axes.set_aspect("auto")
        axes.tick_params(axis="x", rotation=0)
        axes.set_title(f"writing “{words.target[words.pronoun]}”", color=colour, weight="bold")
    return figure


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


@torch.no_grad()
def similarities(translator: heed.Translator, sentence: str) -> tuple[list[str], Any]:
    """Return the pieces of a sentence, and softmax(XXᵀ/√D) of their embeddings."""
    model = translator.model
    assert isinstance(model, Transformer)
    pair = translator.attend([sentence])[0]
    (ids,) = translator.tokenizer.encode_src([sentence])
    x = model.src_embedding(torch.tensor([*ids, EOS])).float()
    return pair.src_pieces, _weights(x, x).numpy()


def heat_map(axes: Axes, weights: Any, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw attention weights as `heed.plot.attention` does."""
    axes.imshow(weights, cmap="Blues", norm=PowerNorm(0.5, 0, 1))
    axes.set_xticks(range(len(columns)), map(piece_label, columns), rotation=90, parse_math=False)
    axes.set_yticks(range(len(rows)), map(piece_label, rows), parse_math=False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)


def _weights(query: Tensor, key: Tensor, *, scaled: bool = True) -> Tensor:
    weights = attend(query, key, key, None, scaled=scaled)[1]
    assert weights is not None
    return weights


# ---- formulas


def score_functions(_: Models) -> Figure:
    """Three scores of one query with every key of a plane."""
    query, side = torch.tensor([[[1.6, 0.8]]]), torch.linspace(-2.5, 2.5, 41)
    keys = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).reshape(1, -1, 2)
    formulas = {"dot": "hₜᵀhₛ", "general": "hₜᵀWhₛ", "additive": "vᵀtanh(Whₜ + Uhₛ)"}
    figure = _figure(WIDTH, 3.9)
    for axes, (name, formula) in zip(figure.subplots(1, 3, sharey=True), formulas.items(), strict=True):
        torch.manual_seed(28)
        score = SCORES[name](ScoreOptions(query_width=2, state_width=2))
        with torch.no_grad():
            values = score(query, score.project(keys)).view(len(side), -1).numpy()
        limit = np.abs(values).max()
        axes.contourf(side.numpy(), side.numpy(), values, np.linspace(-limit, limit, 12), cmap=_diverging())
        axes.annotate("", query[0, 0].tolist(), (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 2})
        axes.set_title(f"{name}: {formula}", parse_math=False)
        axes.set_aspect("equal")
        axes.set_xlabel("key, first element")
    figure.axes[0].set_ylabel("second element")
    return figure


def _diverging() -> LinearSegmentedColormap:
    return LinearSegmentedColormap.from_list("heed", [ORANGE, "#fdfcfa", BLUE])


def saturation(_: Models) -> Figure:
    """Softmax over the scores of 16 random keys, with and without 1/√d_k."""
    widths, keys = (4, 64, 1024), 16
    figure = _figure(WIDTH, HEIGHT)
    rows = figure.subplots(2, len(widths), sharex=True, sharey=True)
    for axes_of_row, (label, scaled) in zip(rows, {"qᵀk": False, "qᵀk/√d_k": True}.items(), strict=True):
        for axes, width in zip(axes_of_row, widths, strict=True):
            torch.manual_seed(2)
            weights = _weights(torch.randn(1, width), torch.randn(keys, width), scaled=scaled)[0]
            axes.bar(range(keys), weights.sort(descending=True)[0].numpy(), color=BLUE if scaled else ORANGE)
            axes.set_ylim(0, 1)
            axes.set_title(f"{label}, d_k = {width}", parse_math=False)
    for axes in rows[1]:
        axes.set_xticks([])
        axes.set_xlabel(f"{keys} keys, by weight")
    figure.supylabel("weight", size=12)
    return figure


def positions(_: Models) -> Figure:
    """Sinusoidal vectors, and their dot products, which depend on the distance alone."""
    length, width = 60, 64
    vectors = SinusoidalPositions(d_model=width, merge="add", max_length=None).vectors(0, length).numpy()
    figure = _figure(WIDTH, HEIGHT)
    left, right = figure.subplots(1, 2)
    left.imshow(vectors, cmap=_diverging(), aspect="auto", vmin=-1, vmax=1)
    left.set(xlabel="element of the vector", ylabel="position", title="p, from −1 (orange) to 1 (blue)")
    for position, colour in ((10, BLUE), (30, ORANGE)):
        right.plot(vectors @ vectors[position], color=colour, label=f"position {position}")
    right.set(xlabel="position", title="dot product with the other positions")
    right.legend(frameon=False)
    return figure


def masks(_: Models) -> Figure:
    """The three masks of a transformer: blue may be attended to."""
    source = ["The", "fish", "swam", "</s>", "<pad>", "<pad>"]
    target = ["<s>", "Der", "Fisch", "schwamm"]
    padding = torch.tensor([piece != "<pad>" for piece in source])
    panels = {
        "encoder: padding": (padding.expand(len(source), -1), source, source),
        "decoder: causal": (causal_mask(len(target), len(target)), target, target),
        "cross: padding": (padding.expand(len(target), -1), target, source),
    }
    figure = _figure(WIDTH, HEIGHT)
    sizes = [len(columns) for _, _, columns in panels.values()]
    for axes, (title, (mask, rows, columns)) in zip(
        figure.subplots(1, 3, width_ratios=sizes), panels.items(), strict=True
    ):
        axes.pcolormesh(
            mask.numpy(), cmap=ListedColormap([PALE, BLUE]), vmin=0, vmax=1, edgecolors="white", linewidth=2
        )
        axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=90, parse_math=False)
        axes.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
        axes.set(xlim=(0, len(columns)), ylim=(len(source), 0), aspect="equal", title=title)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)
    return figure


def cost(_: Models) -> Figure:
    """Multiplications of a layer, and the longest path between two positions (Vaswani et al. 2017, table 1)."""
    width = 128
    n = np.geomspace(8, 4096, 100)
    figure = _figure(WIDTH, HEIGHT)
    left, right = figure.subplots(1, 2)
    left.plot(n, n**2 * width, color=BLUE, label="self-attention, n²·d")
    left.plot(n, n * width**2, color=ORANGE, label="recurrence, n·d²")
    left.vlines(width, 5e3, width**3, color=GREY, lw=1)
    left.text(width * 1.15, 1e4, f"n = d = {width}", color=INK, size=11)
    left.set(title="multiplications per layer", ylim=(5e3, 3e10))
    right.plot(n, np.ones_like(n), color=BLUE, label="self-attention, 1")
    right.plot(n, n, color=ORANGE, label="recurrence, n")
    right.set(title="steps between two positions")
    for axes in (left, right):
        axes.set(xlabel="length n", xscale="log", yscale="log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    left.legend(frameon=False, loc="upper left")
    right.legend(frameon=False, loc="upper left")
    return figure


# ---- diagrams


def path_length(_: Models) -> Figure:
    """The steps from a source word to a target word: through a fixed vector, by cross-attention, in a transformer."""
    source, target = ["The", "man", "ate", "a", "fish"], ["Der", "Mann", "aß", "einen", "Fisch"]
    word, rise = 1, 2.2
    chain = [(x, 0.0) for x in range(word, len(source))] + [(x, rise) for x in range(word + 1)]
    direct = [(word, 0.0), (word, rise)]
    figure = Figure((WIDTH, 3.1))
    panels = {"RNN, fixed vector": chain, "RNN with attention": direct, "transformer": direct}
    for axes, (title, path) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.set(xlim=(-0.6, len(source) - 0.4), ylim=(-0.7, rise + 0.7), aspect="equal")
        axes.axis("off")
        if title == "transformer":
            for x in range(len(source)):
                if x != word:
                    _arrow(axes, (x, 0), (word, 0), RULE, bend=math.copysign(0.3, x - word), lw=1.2)
            for x in range(word):  # causal
                _arrow(axes, (x, rise), (word, rise), RULE, lw=1.2)
        else:
            for y in (0, rise):
                for x in range(len(source) - 1):
                    _arrow(axes, (x, y), (x + 1, y), GREY, lw=1.4)
        if title != "RNN, fixed vector":
            for x in range(len(source)):
                _arrow(axes, (x, 0), (word, rise), RULE, lw=1.2)
        for start, end in pairwise(path):
            _arrow(axes, start, end, ORANGE, lw=2.6)
        for y, words, offset in ((0, source, -0.42), (rise, target, 0.42)):
            for x, text in enumerate(words):
                on_path = (x, y) in (path[0], path[-1])
                axes.add_patch(Circle((x, y), 0.16, fc=ORANGE if on_path else "white", ec=INK, lw=1.4, zorder=3))
                axes.text(x, y + offset, text, ha="center", va="center", size=11)
        steps = len(path) - 1
        axes.set_title(f"{title}\n{steps} step{'s' * (steps > 1)}", loc="center")
    figure.subplots_adjust(0.01, 0.0, 0.99, 0.84, wspace=0.06)
    return figure


def lstm_cell(_: Models) -> Figure:
    """The cell of an LSTM: the state c passes a product and a sum, and no matrix."""
    figure = Figure((WIDTH, HEIGHT))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    top, middle, bottom = 3.55, 1.75, 0.75
    axes.add_patch(FancyBboxPatch((1.7, 0.3), 6.2, 3.7, boxstyle="round,pad=0.1", fc=PALE, ec=GREY, lw=1.4, zorder=0))
    forget, add, out = 2.6, 4.5, 6.9
    path = [(0.6, top), (forget, top), (add, top), (9.0, top)]
    for start, end in pairwise(path):
        _arrow(axes, start, end, BLUE, lw=3.2, shrink=9)
    gates = {forget: "σ(f)", 3.9: "σ(i)", 5.1: "tanh(g)", out: "σ(o)"}
    for x, label in gates.items():
        axes.plot([x, x], [bottom, middle], color=GREY, lw=1.6)
        _node(axes, (x, middle), label, wide=True)
    axes.plot([1.1, out], [bottom, bottom], color=GREY, lw=1.6)
    _node(axes, (add, 2.65), "×")
    for start, end in (
        ((forget, middle), (forget, top)), ((3.9, middle), (add, 2.65)), ((5.1, middle), (add, 2.65)),
        ((add, 2.65), (add, top)), ((out, middle), (out, 2.65)),
    ):  # fmt: skip
        _arrow(axes, start, end, GREY, lw=1.6, shrink=14)
    axes.plot([out, out], [top, 3.2], color=GREY, lw=1.6)
    _arrow(axes, (out, 3.45), (out, 2.65), GREY, lw=1.6, shrink=14)
    axes.text(out + 0.12, 3.15, "tanh", size=11, va="center")
    _arrow(axes, (out, 2.65), (9.0, 2.65), GREY, lw=1.6, shrink=14)
    _node(axes, (out, 2.65), "×")
    for x, label in ((forget, "×"), (add, "+")):
        _node(axes, (x, top), label, colour=BLUE)
    for x, y, label in ((0.35, top, "cₜ₋₁"), (9.25, top, "cₜ"), (9.25, 2.65, "hₜ"), (0.55, bottom, "xₜ, hₜ₋₁")):
        axes.text(x, y, label, ha="center", va="center", size=15)
    return figure


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, *, lw: float, bend: float = 0.0,
    shrink: float = 9.0,
) -> None:  # fmt: skip
    style: Any = {"arrowstyle": "-|>", "mutation_scale": 11, "color": colour, "lw": lw, "zorder": 1 + lw / 10}
    curve = f"arc3,rad={bend}"
    axes.add_patch(FancyArrowPatch(start, end, connectionstyle=curve, shrinkA=shrink, shrinkB=shrink, **style))


def _node(axes: Axes, at: tuple[float, float], label: str, *, colour: str = INK, wide: bool = False) -> None:
    style: Any = {"boxstyle": "round,pad=0.35" if wide else "circle,pad=0.2", "fc": "white", "ec": colour, "lw": 1.6}
    axes.text(*at, label, ha="center", va="center", size=13, color=colour, bbox=style, zorder=4)


FIGURES: dict[str, Callable[[Models], Figure]] = {
    drawing.__name__: drawing
    for drawing in (
        path_length, lstm_cell, alignment, score_functions, parameter_free, query_key_value, saturation, heads,
        positions, masks, pronoun, cost,
    )
}  # fmt: skip
"""By the name of the file, in the order of the sessions."""


def draw(models: Models, folder: Path) -> None:
    """Write all figures as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in FIGURES.items():
        with rc_context(STYLE):
            save_figure(drawing(models), folder / f"{name}.svg")


def main() -> None:
    """Load the models and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transformer", type=Path, help="run or model folder of a transformer")
    parser.add_argument("rnn", type=Path, help="run or model folder of an RNN with attention")
    parser.add_argument("--out", type=Path, default=Path("docs/course"), help="folder (default: docs/course)")
    args = parser.parse_args()
    draw(Models(rnn=heed.load(args.rnn), transformer=heed.load(args.transformer)), args.out)


if __name__ == "__main__":
    main()
