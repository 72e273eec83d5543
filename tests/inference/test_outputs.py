"""Attention maps as .npz files, and what notebooks show."""

import io
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heed.errors import HeedError
from heed.inference.outputs import Attended, attention_archive

PAIR = Attended(
    source="a b", target="c", src_pieces=["▁a", "▁b", "</s>"], tgt_pieces=["▁c", "</s>"],
    cross=np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3), encoder_self=None,
    decoder_self=np.eye(2, dtype=np.float32)[None, None],
)  # fmt: skip


@pytest.mark.parametrize("compress", [True, False])
def test_arrays_are_those_of_the_pair(tmp_path: Path, compress: bool) -> None:
    with attention_archive(tmp_path / "maps", compress=compress) as add:
        add("0", PAIR)
        add("model2.7", PAIR)
    with np.load(tmp_path / "maps") as arrays:
        names = [f"{pair}.{kind}" for pair in ("0", "model2.7") for kind in ("src", "tgt", "cross", "decoder_self")]
        assert list(arrays) == names
        assert (arrays["0.src"].tolist(), arrays["0.tgt"].tolist()) == (PAIR.src_pieces, PAIR.tgt_pieces)
        np.testing.assert_array_equal(arrays["model2.7.cross"], PAIR.cross)
        np.testing.assert_array_equal(arrays["model2.7.decoder_self"], PAIR.decoder_self)


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with attention_archive(tmp_path / "maps", compress=False) as add:
            add("0", PAIR)
            raise HeedError("…")

    with pytest.raises(HeedError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_notebooks_show_a_map_and_no_arrays() -> None:
    assert repr(PAIR) == "<Attended 'a b' → 'c': cross 1 × 2 × 2 × 3, decoder_self 1 × 1 × 2 × 2>"
    page = PAIR._repr_html_()
    assert page is not None
    assert 'alt="&lt;Attended &#x27;a b&#x27; →' in page
    data = re.search(r"base64,([^\"]+)", page)
    assert data is not None
    assert Image.open(io.BytesIO(b64decode(data[1]))).width > 400
    assert Attended("a", "b", ["▁a"], ["▁b"], None, None, None)._repr_html_() is None
