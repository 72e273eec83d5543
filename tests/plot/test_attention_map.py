"""Attention maps as pictures: their pixels, their layout, and the selection of the most informative head."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

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
from heed.plot.canvas import FULL, X_HEIGHT

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


def test_larger_weights_are_darker_tiles() -> None:
    weights = np.array([[1.0, 0.0, 0.25], [0.1, 0.5, 0.02]])
    maps = MapSet("cross", weights[None, None], ["▁a", "▁b"], ["▁c", "▁d", "▁e"])
    picture = draw_map(maps, 0, 0, heading=[]).render()
    pixels, grey = np.asarray(picture), np.asarray(picture.convert("L")).astype(int)
    lightness = {}
    for weight in weights.flat:
        # Tiles are squares of 38 pixels; the colour scale has the same shades but is only 20 pixels high.
        mask = pixels == round(weight**0.5 * FULL)
        square = mask[:-37, :-37] & mask[37:, 37:] & mask[:-37, 37:] & mask[37:, :-37]
        assert square.any()
        lightness[weight] = grey[tuple(np.argwhere(square)[0])]
    assert [lightness[weight] for weight in sorted(lightness)] == sorted(lightness.values(), reverse=True)
    assert len(set(lightness.values())) == 6


PIECES = st.lists(st.sampled_from([*SRC, *TGT, "▁Donaudampfschiff", "WWWW", "ÄÖÜ"]), min_size=1, max_size=45)


@pytest.mark.full
@settings(max_examples=15, deadline=None)
@given(rows=PIECES, columns=PIECES, layers=st.integers(1, 3), heads=st.integers(1, 3))
def test_no_label_overlaps_another_or_leaves_the_picture(
    rows: list[str], columns: list[str], layers: int, heads: int
) -> None:
    """Compare the bounding box of every text, as measured by its font, with all others and with the tiles."""
    sets = [random_map_set(rows, columns, layers=layers, heads=heads), random_map_set(columns, columns)]
    canvas = draw_overview(sets, heading=["A sentence that is rather long. " * 9, "x" * 300])
    boxes: list[tuple[float, float, float, float]] = []
    for x, y, text, style, anchor, vertical in canvas._texts:
        opacity, length, (left, top) = style.paint(text, 1)
        left -= length * {"l": 0, "m": 0.5, "r": 1}[anchor]
        right, bottom = left + opacity.shape[1], top + opacity.shape[0]
        left, right, top, bottom = left, right, top + X_HEIGHT * style.size, bottom + X_HEIGHT * style.size
        if vertical:
            left, top, right, bottom = top, -right, bottom, -left
        boxes.append((x + left, y + top, x + right, y + bottom))
    for x, y, tiles, size in canvas._tiles:
        boxes.append((x, y, x + tiles.shape[1] * size, y + tiles.shape[0] * size))
    found = np.array(boxes)
    assert found.min() >= 0
    assert found[:, 2].max() <= canvas.width
    assert found[:, 3].max() <= canvas.bottom
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
    assert not plain._frames
    assert len(outlined._frames) == 2 * 2 + 1  # in both heads, and in the legend
    assert {text for _, _, text, *_ in outlined._texts} - {text for _, _, text, *_ in plain._texts} == {GOLD}


def test_an_overview_has_a_panel_for_every_layer_and_head() -> None:
    """Another layer makes it higher, another head makes it wider, and one weight changes one tile."""
    small, higher, wider = (
        draw_overview([random_map_set(TGT, SRC, layers=layers, heads=heads)], heading=["a"]).render()
        for layers, heads in ((2, 2), (3, 2), (2, 3))
    )
    assert higher.height > small.height
    assert wider.width > small.width
    weights = random_maps(2, 2, len(TGT), len(SRC))
    changed = weights.copy()
    changed[1, 0, 3, 4] = 1 - weights[1, 0, 3, 4]
    before, after = (
        np.asarray(draw_overview([MapSet("cross", w, TGT, SRC)], heading=["a"]).render()).astype(int)
        for w in (weights, changed)
    )
    rows, columns = np.nonzero(before != after)
    assert 0 < np.ptp(rows) < 20
    assert 0 < np.ptp(columns) < 20


def test_a_filmstrip_has_a_panel_for_every_frame() -> None:
    cross = random_map_set(TGT, SRC)
    frames = {f"step {n}": random_maps(len(TGT), len(SRC), seed=n) for n in range(1, 12)}
    strip = np.asarray(draw_filmstrip(cross, frames, 0, 0, heading=["a"]).render())
    for name in frames:
        blank = dict(frames) | {name: np.zeros((len(TGT), len(SRC)))}
        assert (np.asarray(draw_filmstrip(cross, blank, 0, 0, heading=["a"]).render()) != strip).any()


def test_any_script_is_drawn_without_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cross = random_map_set(["▁猫が", "ですよ", "▁$x_1$", "\u0634", "\U0001f600"], ["▁müde", "ß"])
    with caplog.at_level(logging.DEBUG - 1):
        caplog.clear()
        picture = draw_map(cross, 0, 0, heading=["猫が座った。" * 30, "$\\frac"])
        for suffix in ("png", "svg", "pdf"):
            picture.save(tmp_path / f"a.{suffix}")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size > (400, 200)
