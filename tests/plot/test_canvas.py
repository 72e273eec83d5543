"""Drawing primitives: line breaks, and the position of tiles and text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.plot.canvas import FULL, INK, OUTLINE, WHITE, Canvas, TextStyle, shade

STYLE = TextStyle(14)


@settings(max_examples=50, deadline=None)
@given(text=st.lists(st.text("abcW猫", min_size=1, max_size=30), max_size=12).map(" ".join), width=st.integers(20, 300))
def test_wrapped_lines_fit_and_keep_the_text(text: str, width: int) -> None:
    lines = STYLE.wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(STYLE.width(line) <= width or len(line) == 1 for line in lines)


@pytest.mark.parametrize("scale", [1, 3])
def test_tiles_and_text_are_at_their_positions(scale: int) -> None:
    canvas = Canvas(100, bottom=80, scale=scale)
    canvas.add_tiles(10, 20, np.full((4, 5), FULL, dtype=np.uint8))
    canvas.add_text(60, 50, "H", STYLE)
    pixels = np.asarray(canvas.render())
    assert pixels.shape == (80 * scale, 100 * scale)
    assert (pixels[20 * scale : 24 * scale, 10 * scale : 15 * scale] == FULL).all()
    rows, columns = np.nonzero((pixels >= INK) & (pixels < WHITE))
    assert 42 * scale <= rows.min() <= rows.max() <= 58 * scale
    assert 60 * scale <= columns.min() <= columns.max() <= 75 * scale


def test_a_frame_surrounds_its_square_and_leaves_it_visible() -> None:
    canvas = Canvas(40, bottom=40, scale=1)
    canvas.add_tiles(10, 10, np.full((1, 1), FULL, dtype=np.uint8), size=12)
    canvas.add_frame(10, 10, 11)
    pixels = np.asarray(canvas.render())
    rows, columns = np.nonzero(pixels == OUTLINE)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (9, 21, 9, 21)
    assert (pixels[11:20, 11:20] == FULL).all()


def crop(mask: np.ndarray) -> np.ndarray:
    """The smallest rectangle that contains all true pixels."""
    rows, columns = np.nonzero(mask)
    return mask[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def test_vertical_text_is_read_from_bottom_to_top() -> None:
    horizontal, vertical = Canvas(100, bottom=100, scale=2), Canvas(100, bottom=100, scale=2)
    horizontal.add_text(50, 50, "bdp", STYLE)
    vertical.add_text(50, 50, "bdp", STYLE, vertical=True)
    before, after = (crop(np.asarray(canvas.render()) < WHITE) for canvas in (horizontal, vertical))
    assert after.shape == before.T.shape
    assert (after == np.rot90(before)).mean() > 0.9


def test_shades_grow_with_the_square_root() -> None:
    assert shade(np.array([0.0, 0.25, 1.0, 1.5])).tolist() == [0, round(FULL / 2), FULL, FULL]
