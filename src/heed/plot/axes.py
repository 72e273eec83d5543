"""Attention maps, learning curves and scores over seeds on matplotlib axes, for notebooks and papers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError
from heed.plot.attention_map import (
    GOLD,
    TICKS,
    TITLES,
    MapSet,
    add_outlines,
    add_weights,
    most_informative_head,
    piece_label,
)
from heed.plot.fonts import choose_fonts

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HasMaps(Protocol):
    """A sentence pair with attention maps, such as `heed.Attended`."""

    @property
    def map_sets(self) -> Sequence[MapSet]: ...


def attention(
    pair: HasMaps,
    *,
    kind: str = "cross",
    layer: int | None = None,
    head: int | None = None,
    gold: npt.NDArray[np.bool_] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one attention map, with the pieces beside it.

    Args:
        kind: "cross", "encoder_self" or "decoder_self".
        layer, head: indices of the arrays, -1 is the last; None: those of the most informative head.
        gold: where a gold alignment links the pieces, rows by columns; these cells are outlined. See
            `heed.evaluation.alignment.link_pieces`.
        ax: the axes to draw on; None: those of a new figure.

    Raises:
        HeedError: the model has no attention of this kind, layer or head, or ``gold`` has another shape.
    """
    by_kind = {maps.kind: maps for maps in pair.map_sets}
    if kind not in by_kind:
        raise HeedError(f"kind={kind!r} must be one of {', '.join(by_kind) or '(this model has no attention)'}.")
    maps = by_kind[kind]
    best = most_informative_head(maps.weights)
    layer, head = best[0] if layer is None else layer, best[1] if head is None else head
    layers, heads = maps.weights.shape[:2]
    if not (-layers <= layer < layers and -heads <= head < heads):
        raise HeedError(f"layer={layer}, head={head}: this model has {layers} layers and {heads} heads, from 0.")
    gold = maps.gold if gold is None else np.asarray(gold)
    if gold is not None and gold.shape != (shape := maps.weights.shape[2:]):
        raise HeedError(f"gold of shape {gold.shape} must have that of the map, {shape}: target by source pieces.")
    is_new, ax = ax is None, ax or _new_axes()
    image = add_weights(ax, maps.weights[layer, head])
    if is_new:
        ax.figure.colorbar(image, ax=ax, ticks=TICKS, shrink=0.6)
    if gold is not None:
        add_outlines(ax, np.argwhere(gold)[:, ::-1] - 0.5, 1, line=1.5)
        ax.set_xlabel(f"outlined: {GOLD}")
    ax.set_xticks(range(len(maps.columns)), map(piece_label, maps.columns), rotation=90, parse_math=False)
    ax.set_yticks(range(len(maps.rows)), map(piece_label, maps.rows), parse_math=False)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.set_title(f"{TITLES[kind][0]}, layer {layer % layers + 1}, head {head % heads + 1}")
    choose_fonts(ax)
    return ax


CURVES = {"valid_bleu": "validation BLEU", "valid_chrf": "validation chrF", "valid_loss": "validation loss",
          "loss": "training loss", "lr": "learning rate"}  # fmt: skip
"""What the columns of curves are called on axes."""


def curves(
    runs: Mapping[str, Mapping[str, npt.ArrayLike]],
    *,
    y: str = "valid_bleu",
    x: str = "step",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a learning curve of each run.

    Args:
        runs: the columns of each run, by its name in the legend.
        y, x: columns; rows without a value in one of them are left out.
        ax: the axes to draw on; None: those of a new figure.

    Raises:
        HeedError: a run has no such column.
    """
    ax = ax or _new_axes()
    for name, columns in runs.items():
        if missing := {x, y} - columns.keys():
            raise HeedError(f"{name} has no column {sorted(missing)[0]!r}: choose from {', '.join(columns)}.")
        points = np.array([columns[x], columns[y]], dtype=float)
        points = points[:, ~np.isnan(points).any(0)]
        ax.plot(*points, marker="." if points.shape[1] < 100 else None, label=name)
    ax.set_xlabel(CURVES.get(x, x))
    ax.set_ylabel(CURVES.get(y, y))
    ax.legend()
    choose_fonts(ax)
    return ax


def spreads(groups: Mapping[str, Sequence[float]], *, x: str, ax: "Axes | None" = None) -> "Axes":
    """Draw the mean ± the sample standard deviation of each group, and its values, in rows from top to bottom.

    Args:
        groups: the values of each group, such as the scores of several seeds, by its name beside the row.
        x: the name of the values.
        ax: the axes to draw on; None: those of a new figure.
    """
    ax = ax or _new_axes()
    for row, values in enumerate(groups.values()):
        deviation = np.std(values, ddof=1) if len(values) > 1 else 0
        ax.errorbar(np.mean(values), row, xerr=deviation, fmt="o", color="C0", capsize=4)
        ax.plot(values, [row] * len(values), ".", color="0.5", zorder=3)
    ax.set_yticks(range(len(groups)), groups, parse_math=False)
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xlabel(x)
    choose_fonts(ax)
    return ax


def _new_axes() -> "Axes":
    from matplotlib import pyplot

    return pyplot.subplots()[1]
