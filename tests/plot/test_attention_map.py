"""Attention maps as figures: their cells, their layout, and the selection of the most informative head."""

import logging
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import imread

from heed.inference.outputs import Attended
from heed.plot.attention_map import (
    GOLD,
    MapSet,
    draw_filmstrip,
    draw_map,
    draw_overview,
    most_informative_head,
    piece_label,
)
from heed.plot.fonts import save_figure

SRC = ["▁The", "▁old", "▁woman", "▁is", "▁ti", "red", ".", "</s>"]
TGT = ["▁Die", "▁mü", "de", "▁äl", "tere", "▁Frau", ".", "</s>"]


def random_maps(*shape: int, seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.3), size=shape[:-1])
    return weights.astype(np.float32)


def random_map_set(rows: list[str], columns: list[str], *, layers: int = 1, heads: int = 1) -> MapSet:
    return MapSet("cross", random_maps(layers, heads, len(rows), len(columns)), rows, columns)


def test_map_sets_have_the_pieces_along_their_sides() -> None:
    cross, decoder = random_maps(1, 1, 8, 8), random_maps(1, 1, 8, 8, seed=1)
    read = ["<s>", *TGT[:-1]]
    pair = Attended("The old …", "Die müde …", SRC, TGT, cross, None, decoder)
    found = [(maps.kind, maps.rows, maps.columns) for maps in pair.map_sets]
    assert found == [("cross", TGT, SRC), ("decoder_self", read, read)]
    assert pair.map_sets[1].weights is decoder


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("▁Straße", "Straße"),
        ("ße", "·ße"),
        (".", "."),
        ("▁", "▁"),
        ("</s>", "</s>"),
        ("猫", "猫"),
        ("'", "'"),
        ("7", "·7"),
    ],
)
def test_piece_labels(piece: str, expected: str) -> None:
    assert piece_label(piece) == expected


def test_the_most_informative_head_attends_elsewhere_in_every_row() -> None:
    uniform = np.full((6, 6), 1 / 6)
    sharp_but_constant = np.eye(6)[[5] * 6]
    halfway = 0.5 * np.eye(6) + 0.5 * uniform
    crossing = np.eye(6)[::-1]
    weights = np.stack([uniform, sharp_but_constant, halfway, crossing]).reshape(2, 2, 6, 6)
    assert most_informative_head(weights) == (1, 1)
    assert most_informative_head(weights[:, :1]) == (1, 0)


def test_of_two_aligned_heads_the_one_that_returns_to_an_earlier_word_is_chosen() -> None:
    """A pronoun attends to its noun: 6 attends to 1 as the noun does. In the other head its neighbour does."""
    aligned = np.eye(8)
    neighbour, noun = aligned.copy(), aligned.copy()
    neighbour[6], noun[6] = aligned[5], aligned[1]
    assert most_informative_head(np.stack([neighbour, noun])[None]) == (0, 1)
    assert most_informative_head(np.stack([noun, neighbour])[None]) == (0, 0)


def cells(figure: Figure, number: int = 0) -> np.ndarray:
    """The weights of the figure's grid, NaN between its panels."""
    return np.asarray(figure.axes[0].images[number].get_array())


def texts(figure: Figure) -> list[str]:
    return [str(patch.get_label()) for patch in figure.axes[0].patches]


def test_larger_weights_are_darker_cells_between_white_lines() -> None:
    weights = np.array([[1.0, 0.0, 0.25], [0.1, 0.5, 0.02]])
    maps = MapSet("cross", weights[None, None], ["▁a", "▁b"], ["▁c", "▁d", "▁e"])
    figure, file = draw_map(maps, 0, 0, heading=[]), BytesIO()
    save_figure(figure, file)
    grey = imread(BytesIO(file.getvalue()))[..., :3].mean(-1)
    (left, right, bottom, top), axes = figure.axes[0].images[0].get_extent(), figure.axes[0]

    def at(row: float, column: float) -> float:
        x, y = axes.transData.transform((left + column * (right - left) / 3, top + row * (bottom - top) / 2))
        return float(grey[round(len(grey) - y), round(x)])

    lightness = {weight: at(row + 0.5, column + 0.5) for (row, column), weight in np.ndenumerate(weights)}
    assert [lightness[weight] for weight in sorted(lightness)] == sorted(lightness.values(), reverse=True)
    assert min(-np.diff(sorted(lightness.values(), reverse=True))) > 0.03  # small weights are visible
    assert lightness[0.0] < 0.99  # not as white as the lines
    assert at(0.5, 1) == at(1, 0.5) == 1


PIECES = st.lists(st.sampled_from([*SRC, *TGT, "▁Donaudampfschiff", "WWWW", "ÄÖÜ"]), min_size=1, max_size=25)


@pytest.mark.full
@settings(max_examples=8, deadline=None)
@given(rows=PIECES, columns=PIECES, layers=st.integers(1, 3), heads=st.integers(1, 3))
def test_no_label_overlaps_another_or_leaves_the_picture(
    rows: list[str], columns: list[str], layers: int, heads: int
) -> None:
    """Compare the bounding box of every text, with all others and with the maps."""
    sets = [random_map_set(rows, columns, layers=layers, heads=heads), random_map_set(columns, columns)]
    figure = draw_overview(sets, heading=["A sentence that is rather long. " * 9, "x" * 300])
    outlines = [np.asarray(patch.get_path().vertices) for patch in figure.axes[0].patches]
    pixels = [figure.axes[0].transData.transform(each) for each in outlines if len(each)]
    boxes = [np.array([*each.min(0), *each.max(0)]) for each in pixels]
    for image in figure.axes[0].images:
        x0, y0, x1, y1 = image.get_window_extent().extents
        used = np.flatnonzero(~np.isnan(image.get_array()).all(1))
        for rows_of_layer in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1):
            bottom, top = y1 - (y1 - y0) * np.array([rows_of_layer[-1] + 1, rows_of_layer[0]]) / len(image.get_array())
            boxes.append(np.array([x0, bottom, x1, top]))
    found = np.array(boxes)
    assert found.min() >= 0
    assert (found[:, 2:].max(0) <= figure.bbox.extents[2:]).all()
    tolerance = 1  # letters may overhang by a pixel
    apart = (
        (found[:, None, 2] - tolerance <= found[None, :, 0])
        | (found[:, None, 3] - tolerance <= found[None, :, 1])
        | (found[None, :, 2] - tolerance <= found[:, None, 0])
        | (found[None, :, 3] - tolerance <= found[:, None, 1])
    )
    overlaps = np.argwhere(~apart & ~np.eye(len(found), dtype=bool))
    assert not len(overlaps), found[overlaps[0]]


def test_cells_of_the_gold_alignment_are_outlined_and_explained() -> None:
    maps = MapSet("cross", random_maps(1, 2, 2, 3), ["▁a", "▁b"], ["▁c", "▁d", "▁e"])
    gold = np.array([[True, False, False], [False, False, True]])
    plain, outlined = (draw_overview([each], heading=[]) for each in (maps, replace(maps, gold=gold)))

    def squares(figure: Figure) -> list[list[float]]:
        outlines = [each for each in figure.axes[0].collections if isinstance(each, PolyCollection)]
        return [path.vertices[0].tolist() for each in outlines for path in each.get_paths()]

    assert squares(plain) == []
    assert {*texts(outlined)} - {*texts(plain)} == {GOLD}
    left, right, bottom, top = outlined.axes[0].images[0].get_extent()
    size = (bottom - top) / 2
    *found, _ = squares(outlined)  # the last is in the legend
    other = right - 3 * size  # the left side of the second head's map
    assert found == [[left, top], [other, top], [left + 2 * size, top + size], [other + 2 * size, top + size]]


def test_an_overview_has_a_panel_for_every_layer_and_head() -> None:
    maps = random_map_set(TGT, SRC, layers=3, heads=2)
    figure = draw_overview([maps, random_map_set(SRC, SRC)], heading=["a"])
    rows, columns = (np.flatnonzero(~np.isnan(cells(figure)).all(axis)) for axis in (1, 0))
    found = cells(figure)[np.ix_(rows, columns)].reshape(3, 8, 2, 8).swapaxes(1, 2)
    np.testing.assert_array_equal(found, maps.weights)
    titles = [text for text in texts(figure) if text.startswith("layer")]
    assert titles == [*(f"layer {layer} · head {head}" for layer in (1, 2, 3) for head in (1, 2)), "layer 1 · head 1"]
    assert texts(figure).count("woman") == 2 + 1 + 1  # columns, and rows of the second


def test_a_filmstrip_has_a_panel_for_every_frame() -> None:
    frames = {f"step {n}": random_maps(len(TGT), len(SRC), seed=n) for n in range(1, 12)}
    figure = draw_filmstrip(random_map_set(TGT, SRC), frames, 0, 0, heading=["a"])
    assert [text for text in texts(figure) if text.startswith("step")] == [*frames]
    found = cells(figure)
    assert np.sum(~np.isnan(found)) == 11 * len(TGT) * len(SRC)
    for weights in frames.values():
        windows = np.lib.stride_tricks.sliding_window_view(found, weights.shape)
        assert (windows == weights).all((2, 3)).sum() == 1


def test_any_script_is_drawn_without_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cross = random_map_set(["▁猫が", "ですよ", "▁$x_1$", "\u0634", "\U0001f600"], ["▁müde", "ß"])
    with caplog.at_level(logging.DEBUG - 1):
        caplog.clear()
        picture = draw_map(cross, 0, 0, heading=["猫が座った。" * 30, "$\\frac"])
        for suffix in ("png", "svg", "pdf"):
            save_figure(picture, tmp_path / f"a.{suffix}")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert imread(tmp_path / "a.png").shape > (400, 200)
