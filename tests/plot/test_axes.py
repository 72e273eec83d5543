"""Attention maps and learning curves on matplotlib axes."""

import matplotlib as mpl
import numpy as np
import pytest

from heed import plot
from heed.errors import HeedError
from heed.inference.outputs import Attended

SRC, TGT = ["▁two", "▁men", "</s>"], ["▁zwei", "▁M", "änner", "</s>"]


@pytest.fixture(autouse=True)
def no_display() -> None:
    mpl.use("Agg")


def pair() -> Attended:
    cross = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 5, 4))
    cross[1, 3] = np.eye(3)[[0, 1, 1, 2]]
    return Attended("two men", "zwei Männer", SRC, TGT, cross, None, None)


def test_a_map_has_its_weights_and_pieces() -> None:
    attended = pair()
    axes = attended.plot()
    (image,) = axes.get_images()
    assert attended.cross is not None
    np.testing.assert_array_equal(image.get_array(), attended.cross[1, 3])  # the most informative
    assert [label.get_text() for label in axes.get_yticklabels()] == ["zwei", "M", "·änner", "</s>"]
    (image,) = plot.attention(attended, layer=0, head=2, ax=axes.figure.add_subplot()).get_images()
    np.testing.assert_array_equal(image.get_array(), attended.cross[0, 2])


def test_cells_of_a_gold_alignment_are_outlined() -> None:
    gold = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)
    axes = plot.attention(pair(), gold=gold)
    (outlines,) = axes.collections
    corners = [path.vertices[0].tolist() for path in outlines.get_paths()]
    assert corners == [[-0.5, -0.5], [0.5, 0.5], [0.5, 1.5]]
    assert not pair().plot().collections
    with pytest.raises(HeedError, match=r"gold of shape \(3, 4\) must have that of the map, \(4, 3\)"):
        plot.attention(pair(), gold=gold.T)


def test_spreads_have_the_mean_the_standard_deviation_and_the_values() -> None:
    axes = plot.spreads({"pre": [20.0, 22.0, 24.0], "a$b$": [30.0]}, x="BLEU")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["pre", "a$b$"]
    for row, (mean, deviation, values) in enumerate([(22, 2, [20, 22, 24]), (30, 0, [30])]):
        _, _, (bar,) = axes.containers[row]
        np.testing.assert_allclose(bar.get_segments()[0], [[mean - deviation, row], [mean + deviation, row]])
        dots = next(line for line in axes.get_lines() if line.get_marker() == "." and line.get_ydata()[0] == row)
        assert [*dots.get_xdata()] == values
    top, bottom = axes.get_ylim()
    assert top > bottom  # the first group is at the top


@pytest.mark.parametrize("options", [{"kind": "encoder_self"}, {"layer": 2}, {"head": -6}])
def test_a_map_that_is_missing_is_an_error(options: dict[str, object]) -> None:
    with pytest.raises(HeedError, match=next(iter(options))):
        pair().plot(**options)


def test_curves_leave_out_rows_without_a_value() -> None:
    runs = {
        "a": {"step": [10, 20, 30], "valid_bleu": [float("nan"), 3.5, 7.0]},
        "b": {"step": [15], "valid_bleu": [np.float32(5.0)]},
    }
    lines = plot.curves(runs).get_lines()
    assert [line.get_label() for line in lines] == ["a", "b"]
    np.testing.assert_array_equal(lines[0].get_xydata(), [[20, 3.5], [30, 7.0]])
    with pytest.raises(HeedError, match="b has no column 'bleu': choose from step, valid_bleu"):
        plot.curves({"b": runs["b"]}, y="bleu")
