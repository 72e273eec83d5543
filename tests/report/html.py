"""Parsed pages: their elements and text, and the colours of the style sheet."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import heed.report

TEMPLATES = Path(heed.report.__file__).parent / "templates"
VOID = ("meta", "link", "br", "wbr", "input")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()


class Page(HTMLParser):
    """Checks that tags are closed, and collects the elements and the visible text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.text = ""
        self.feed(str(html))  # Markup would escape what is added to it
        assert self.open == []

    def find(self, tag: str = "", css_class: str = "") -> list[Element]:
        """Return the elements with this tag and class."""
        return [e for e in self.elements if tag in ("", e.tag) and (not css_class or css_class in e.classes)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        for parent in self.open:
            parent.children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for parent in self.open:
            parent.text += data
        if self.open and self.open[-1].tag not in ("style", "script"):
            self.text += data


def palette(theme: str) -> dict[str, tuple[float, ...]]:
    """Return the colours of the style sheet in the theme light or dark, from 0 to 1."""
    found = re.findall(r"--([\w-]+): light-dark\(#(\w{6})\w*, #(\w{6})\w*\)", read("style.css"))
    return {name: tuple(int((light, dark)[theme == "dark"][i : i + 2], 16) / 255 for i in (0, 2, 4))
            for name, light, dark in found}  # fmt: skip


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the contrast ratio of WCAG 2."""
    low, high = sorted(_luminance(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def read(name: str) -> str:
    """Return a file among the templates."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _luminance(colour: tuple[float, ...]) -> float:
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in colour]
    return sum(share * value for share, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
