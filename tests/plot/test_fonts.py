"""Pictures in every script: letters of installed fonts, joined and in their order, and a line without a font."""

import re
import unicodedata
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.image import imread

from heed.plot import fonts
from heed.plot.attention_map import MapSet, draw_map
from heed.plot.axes import spreads
from heed.plot.fonts import save_figure, text_width, wrap

WORDS = {
    "Arabic": "سلام", "Hebrew": "שלום", "Devanagari": "किताब", "Thai": "หนังสือ", "Ethiopic": "አማርኛ", "Khmer": "សៀវភៅ",
    "Japanese": "猫が", "Korean": "고양이",
}  # fmt: skip


def ink(text: str) -> np.ndarray:
    """The darkness of the pixels of a text, without a margin."""
    figure, file = Figure((6, 1.5)), BytesIO()
    figure.text(0.05, 0.4, text, size=40)
    save_figure(figure, file)
    dark = 1 - imread(BytesIO(file.getvalue()))[..., 0]
    rows, columns = np.nonzero(dark)
    return dark[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def covered(text: str) -> bool:
    characters = dict(fonts._installed())
    families = fonts.fallback_families(text)
    return {*text} <= fonts._default_characters().union(*(characters[family] for family in families))


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
    assert text_width("سلام", 40) < 0.8 * sum(text_width(letter, 40) for letter in "سلام")


def test_a_figure_has_the_fonts_of_its_texts() -> None:
    needs_font("Thai")
    axes = spreads({WORDS["Thai"]: [1.0, 2.0], "abc": [2.0]}, x="BLEU")
    thai, latin = (label.get_fontfamily() for label in axes.get_yticklabels())
    assert thai == ["sans-serif", "DejaVu Sans", *fonts.fallback_families(WORDS["Thai"])]
    assert len(thai) > 2
    assert latin == ["sans-serif"]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.filterwarnings("error")
def test_a_script_without_a_font_is_named_once(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_installed", list)
    monkeypatch.setattr(fonts, "_reported", set())
    fonts.fallback_families.cache_clear()
    fonts.text_path.cache_clear()
    maps = MapSet("cross", np.eye(3)[None, None], ["▁猫", "が", "▁หนังสือ"], ["▁שלום", "▁سلام", "▁a\u200cb\ufe0f"])
    for number in range(2):
        save_figure(draw_map(maps, 0, 0, heading=["고양이 \U0001f9ff"]), tmp_path / f"{number}.{suffix}")
    fonts.fallback_families.cache_clear()
    install = "characters: install fonts-noto-core and fonts-noto-cjk, or another font that has them."
    scripts = ("Cjk", "Hiragana", "Thai", "Hangul", "Nazar")
    found = capsys.readouterr().err.splitlines()
    assert sorted(found) == sorted(f"No installed font has {script} {install}" for script in scripts)


@settings(max_examples=50, deadline=None)
@example(words=["WWWaa\u0e31"], width=30)  # the space after the last letter needs no line
@given(words=st.lists(st.text("abcW猫น\u0e31", min_size=1, max_size=30), max_size=12), width=st.integers(30, 300))
def test_wrapped_lines_fit_and_keep_the_text(words: list[str], width: int) -> None:
    lines = wrap(" ".join(words), 14, width)
    assert "".join(lines).replace(" ", "") == "".join(words)
    for line in lines:
        marks = sum(unicodedata.category(letter) == "Mn" for letter in line)
        assert text_width(line, 14) <= width or len(line) - marks == 1 or marks
    for line in lines[1:]:
        assert unicodedata.category(line[0]) != "Mn" or line[0] == words[0][0] or any(w[0] == line[0] for w in words)


def test_labels_of_any_script_are_inside_the_picture(tmp_path: Path) -> None:
    """A word is as wide as it was measured, so that no edge cuts it."""
    words = [word for word in WORDS.values() if covered(word)]
    rows = [f"▁{word * 4}" for word in words]
    figure = draw_map(MapSet("cross", np.ones((1, 1, len(rows), 1)), rows, ["▁a"]), 0, 0, heading=[])
    outlines = {patch.get_label(): np.asarray(patch.get_path().vertices) for patch in figure.axes[0].patches}
    assert {row[1:] for row in rows} <= outlines.keys()
    for vertices in outlines.values():
        assert (vertices >= 0).all()
        assert (vertices <= 72 * figure.get_size_inches()).all()
    save_figure(figure, tmp_path / "map.svg")
    assert not re.search(r"""href="http|url\(['"]?http|@import""", (tmp_path / "map.svg").read_text(encoding="utf-8"))
