"""Pictures in every script: letters of installed fonts, joined and in their order, and a line without a font."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from heed.plot import fonts
from heed.plot.attention_map import MapSet, draw_map
from heed.plot.axes import spreads
from heed.plot.canvas import TextStyle

STYLE = TextStyle(40)
WORDS = {
    "Arabic": "سلام", "Hebrew": "שלום", "Devanagari": "किताब", "Thai": "หนังสือ", "Ethiopic": "አማርኛ", "Khmer": "សៀវភៅ",
    "Japanese": "猫が", "Korean": "고양이",
}  # fmt: skip


def ink(text: str) -> np.ndarray:
    return STYLE.paint(text, 1)[0]


def covered(text: str) -> bool:
    files = [fonts._default_file(), *fonts.fallback_files(text)]
    return set(text) <= set().union(*map(fonts._characters, files))


def needs_font(script: str) -> None:
    if not covered(WORDS[script]):
        pytest.skip(f"needs an installed font with {script} letters")


@pytest.mark.parametrize("script", WORDS)
def test_letters_of_a_script_differ_from_each_other(script: str) -> None:
    """Without a font, all letters of a script are the same box."""
    needs_font(script)
    letters = {ink(letter).tobytes() for letter in WORDS[script] if letter.isalpha()}
    assert len(letters) == len({letter for letter in WORDS[script] if letter.isalpha()})


def test_right_to_left_words_begin_at_the_right_and_arabic_letters_are_joined() -> None:
    word, lower = ink("לום"), ink("ומם")
    ascender = word[: len(word) - len(lower)].max(0)  # of lamed, its first letter
    assert (np.flatnonzero(ascender) > word.shape[1] / 2).all()
    assert ascender.any()
    assert STYLE.width("سلام") < 0.8 * sum(map(STYLE.width, "سلام"))


def test_a_figure_has_the_fonts_of_its_texts() -> None:
    needs_font("Thai")
    axes = spreads({WORDS["Thai"]: [1.0, 2.0], "abc": [2.0]}, x="BLEU")
    thai, latin = (label.get_fontfamily() for label in axes.get_yticklabels())
    assert thai == ["sans-serif", "DejaVu Sans", *map(fonts._family, fonts.fallback_files(WORDS["Thai"]))]
    assert len(thai) > 2
    assert latin == ["sans-serif"]


@pytest.fixture
def no_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No font but DejaVu Sans is installed, and nothing has been reported."""
    monkeypatch.setattr(fonts, "_installed", list)
    monkeypatch.setattr(fonts, "_reported", set())


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.usefixtures("no_fonts")
@pytest.mark.filterwarnings("error")
def test_a_script_without_a_font_is_named_once(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maps = MapSet("cross", np.eye(3)[None, None], ["▁猫", "が", "▁หนังสือ"], ["▁שלום", "▁سلام", "▁a\u200cb\ufe0f"])
    for number in range(2):
        draw_map(maps, 0, 0, heading=["고양이 \U0001f9ff"]).save(tmp_path / f"{number}.{suffix}")
    assert capsys.readouterr().err.splitlines() == [
        "No font with Japanese letters: install fonts-noto-cjk, or another font that has them.",
        "No font with Korean letters: install fonts-noto-cjk, or another font that has them.",
        "No font with Thai letters: install fonts-noto-core, or another font that has them.",
        "No font with \U0001f9ff: install fonts-noto-core, or another font that has them.",
    ]


def test_labels_of_any_script_are_inside_an_svg(tmp_path: Path) -> None:
    """A word is as wide in the SVG as it was measured, so that the left edge does not cut it."""
    words = [word for script, word in WORDS.items() if covered(word)]
    rows = [f"▁{word * 4}" for word in words]
    maps = MapSet("cross", np.ones((1, 1, len(rows), 1)), rows, ["▁a"])
    draw_map(maps, 0, 0, heading=[]).save(tmp_path / "map.svg")
    svg = ET.parse(tmp_path / "map.svg")
    groups = [group for group in svg.iter("{http://www.w3.org/2000/svg}g") if group.get("id", "").startswith("text_")]
    starts = [float(x) for group in groups for x in re.findall(r"translate\(([-\d.]+)", str(ET.tostring(group)))[:1]]
    assert len(starts) > len(rows)
    assert not re.search(r"""href="http|url\(['"]?http|@import""", (tmp_path / "map.svg").read_text(encoding="utf-8"))
    assert min(starts) >= 0
