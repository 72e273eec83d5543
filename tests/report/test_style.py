"""The style sheets: enough contrast in both themes, and text of at least 11 pixels."""

import re
from pathlib import Path

import pytest

from tests.report.html import TEMPLATES, contrast, palette, read

SHEETS = [path.name for path in TEMPLATES.glob("*.css")]
SIDES = [f"side-{number}" for number in range(6)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(theme: str) -> None:
    colours = palette(theme)
    for text in ("ink", "soft", *SIDES):
        for behind in ("paper", "panel"):
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)
    assert contrast(colours["warn"], colours["warn-paper"]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_have_contrast_to_the_darkest_shade_behind_them(theme: str) -> None:
    colours = palette(theme)
    (most,) = re.findall(r"BEHIND_WORDS = (\d+)", read("attention.js"))
    share = int(most) / 100
    for side in SIDES:
        for behind in ("paper", "panel"):
            mixed = tuple(share * a + (1 - share) * b for a, b in zip(colours[side], colours[behind], strict=True))
            assert contrast(colours["ink"], mixed) >= 4.5


def test_the_contrast_is_wcag() -> None:
    assert contrast((0, 0, 0), (1, 1, 1)) == pytest.approx(21)
    assert contrast((0.4666666, 0.4666666, 0.4666666), (1, 1, 1)) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("sheet", SHEETS)
def test_text_has_the_colours_that_were_checked(sheet: str) -> None:
    used = {*re.findall(r"[{; ](?:color|fill): ([^;}]+);", read(sheet))}
    checked = {f"var(--{name})" for name in ("ink", "soft", "own", "warn", *SIDES)}
    # Text in the colour of the paper is on ink; the shade of a cell is no text.
    others = {"inherit", "none", "var(--paper)", "color-mix(in srgb, var(--own) var(--heat), var(--panel))"}
    assert used <= checked | others


@pytest.mark.parametrize("sheet", SHEETS)
def test_no_font_is_smaller_than_11_pixels(sheet: str) -> None:
    sizes = re.findall(r"font(?:-size)?: [^;{}]*?([\d.]+)px", read(sheet))
    assert sizes
    assert all(float(size) >= 11 for size in sizes)


PACKAGES = [TEMPLATES, *((TEMPLATES.parents[1] / name) for name in ("export", "serve"))]
PARTS = [path for folder in PACKAGES for suffix in ("j2", "js", "css", "html") for path in folder.rglob(f"*.{suffix}")]


@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.name)
def test_no_page_needs_another_host(part: Path) -> None:
    """Links are followed by the reader; all else must be in the page, or on its own server."""
    text = re.sub(r"<a [^>]*>", "", part.read_text(encoding="utf-8")).replace("http://www.w3.org/", "")
    assert not re.search(r"(https?:)?//[\w-]+\.[\w.-]+/|@import", text)
