"""Fill the generated parts of the pages."""

import re
from collections.abc import Callable
from pathlib import Path

from docs import commands, drawings, explainer, figures, options

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""
DOCS = ROOT / "docs"

MARKED = re.compile(r"<!-- (?P<kind>\w+)(?:: (?P<argument>[^>]*?))? -->(?P<content>.*?)<!-- end -->", re.DOTALL)
"""A generated part with its two comments."""

BLOCKS: dict[str, Callable[[str], str]] = {
    "figure": drawings.markdown,
    "table": figures.table,
    "source": figures.source,
    "options": lambda _: options.markdown(),
    "presets": lambda _: options.presets(),
    "commands": lambda _: commands.markdown(),
    "claims": lambda _: figures.claims(),
    "reference": figures.reference,
    "diagnoses": lambda _: figures.diagnoses(),
}
"""Functions from the argument of a generated part to its content. These parts are paragraphs; ``value`` is inline."""


def pages() -> list[Path]:
    """Return README.md and the pages of docs/ and data/."""
    return [ROOT / "README.md", ROOT / "data" / "README.md", *sorted(DOCS.glob("**/*.md"))]


def generate(page: Path) -> str:
    """Return the text of a page with its generated parts written anew."""
    return fill(page.read_text(encoding="utf-8"))


def files() -> dict[Path, str]:
    """Return the text of every page, figure and other generated file."""
    texts = {page: generate(page) for page in pages()}
    figures = [
        match["argument"] for text in texts.values() for match in MARKED.finditer(text) if match["kind"] == "figure"
    ]
    drawn = {DOCS / drawings.file_name(argument): drawings.draw(argument).svg() for argument in figures}
    return texts | drawn | {DOCS / "stylesheets" / "colours.css": drawings.colours(), explainer.PAGE: explainer.page()}


def fill(text: str) -> str:
    """Return a Markdown text with its generated parts written anew.

    Raises:
        KeyError: if a part names a kind, a file, a row or a value that does not exist.
    """

    def write(match: re.Match[str]) -> str:
        kind, argument = match["kind"], match["argument"] or ""
        start = match[0].partition("-->")[0] + "-->"
        if kind == "value":
            return f"{start}{figures.value(argument)}<!-- end -->"
        return f"{start}\n\n{BLOCKS[kind](argument)}\n\n<!-- end -->"

    return MARKED.sub(write, text)
