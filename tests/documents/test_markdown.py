"""The text of Markdown, and everything else, which is kept."""

import time

import pytest

from heed.documents.inline import InlineText, inline_texts
from heed.documents.markdown import parse
from heed.inference.outputs import Translation


def pieces(text: str) -> list[str | InlineText]:
    return [each for each in inline_texts(parse(text), str, aligned=True) if each]


def texts(text: str) -> list[str]:
    return [each.text for each in pieces(text) if isinstance(each, InlineText)]


def copied(text: str) -> str:
    """Return the document with each text as its own translation."""

    def restored(each: InlineText) -> str:
        links = [(i, i) for i in range(len(each.text.split()))]
        return each.restore(Translation(each.text, 0.0, 0.0, finished=True, alignment=links))

    return "".join(restored(each) if isinstance(each, InlineText) else each for each in pieces(text))


BLOCKS = [
    ("a b\n\nc\n", ["a b", "c"]),
    ("# a #\n## b\n### C#\nc\n===\nd\n---\n", ["a", "b", "C#", "c", "d"]),
    ("- a\n* b\n+ c\n1. d\n2) e\n- [x] f\n  - g\n\n      h\n", ["a", "b", "c", "d", "e", "f", "g", "h"]),
    ("> a\n>> b\n> - c\n", ["a", "b", "c"]),
    ("a\n```py\nx\n\n# x\n```\nb\n~~~\nx\n```\n~~~~\nc\n", ["a", "b", "c"]),
    ("- a\n  ```\n  x\n  ```\n> ```\n> x\n> ```\nb\n", ["a", "b"]),
    ("```\nx\n\nx", []),
    ("a\n\n    x\n\n\tx\nb\n", ["a", "b"]),
    (">     x\n- a\n\n  b\n\n      x\n", ["a", "b"]),
    ("| a | b |\n|---|:-:|\n| c | `x|y` |\n| d \\| e |\n\nf | g\n", ["a", "b", "c", "`x", "y`", "d \\| e", "f | g"]),
    ("a | b\n- | -\nc | d\n", ["a", "b", "c", "d"]),
    ("[x]: http://x.y 'x'\n[^1]: a\n", ["a"]),
    ("<div>\nx\n\nx</div>\n", ["x"]),
    ("<!-- x\n\nx -->\n<script>\n\nx\n</script>\n<br>a\n", ["a"]),
    ("---\ntitle: x\n---\na\n", ["a"]),
    ("***\n* * *\n___\n", []),
    ("", []),
    ("\n \n", []),
    ("a\r\n\r\n- b\r\n", ["a", "b"]),
]


@pytest.mark.parametrize(("text", "expected"), BLOCKS)
def test_blocks(text: str, expected: list[str]) -> None:
    assert texts(text) == expected
    assert copied(text) == text


def test_the_lines_of_a_paragraph_are_one_text() -> None:
    text = "> a b\n> c\nd\n\n- e\n  f\n"
    assert texts(text) == ["a b c d", "e f"]
    assert copied(text) == "> a b c d\n\n- e f\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a *b* _c_ **d** __e__ ~~f~~", "a <*>b</*> <_>c</_> <**>d</**> <__>e</__> <~~>f</~~>"),
        ("***a*** **b *c***", "<**><*>a</*></**> <**>b <*>c</*></**>"),
        ("**a *b** 5 * 3 snake_case_x a*b*", "<**>a *b</**> 5 * 3 snake_case_x a<*>b</*>"),
        ("[a *b*](x (y) 'z') [c][d]", "<[>a <*>b</*></](x (y) 'z')> <[>c</][d]>"),
        ("[a] [x] [ ] a[1]", "[a] [x] [ ] a[1]"),
        ("`a*b` ``x`y`` **a**", "{`a*b`} {``x`y``} <**>a</**>"),
        ("a ![x *y*](z) b [![x](y)](z) c", "a {![x *y*](z)} b {[![x](y)](z)} c"),
        ("a <http://x.y/*z*> <a@b.c> https://x.y/_z_. b", "a {<http://x.y/*z*>} {<a@b.c>} {https://x.y/_z_}. b"),
        ("a <b>c</b> <kbd>d *e</kbd> &amp; f", "a <<b>>c</</b>> {<kbd>d *e</kbd>} {&amp;} f"),
        (r"\*a\* \[b\](c) \\ *d*", r"\*a\* \[b\](c) \\ <*>d</*>"),
        ("a[^1] b", "a{[^1]} b"),
        ("a  \nb  \nc", "a {  \n} b {  \n} c"),
        ("*[a*](b)", "<*>[a</*>](b)"),
        ("*a", "*a"),
        ("a ] b", "a ] b"),
    ],
)
def test_inline_markup(text: str, expected: str) -> None:
    """In ``expected``, tags are in ``<…>``, and kept markup in braces."""
    (found,) = (each for each in pieces(text) if isinstance(each, InlineText))
    parts: list[str] = []
    for number, char in enumerate(found.text + "\0"):
        ends = [each for each in found.elements if each.span[1] == number]
        starts = [each for each in found.elements if each.span[0] == number]
        parts += [f"</{each.tags[1]}>" for each in reversed(ends)] + [f"<{each.tags[0]}>" for each in starts]
        parts.append(f"{{{found.kept[char]}}}" if char in found.kept else char)
    assert "".join(parts).rstrip("\0") == expected
    assert copied(text).split() == text.split()


def test_a_reference_keeps_its_name() -> None:
    text = "Read [the *Manual*] and [this][].\n\n[The *manual*]: x\n[this]: y\n"
    (first, *_) = (each for each in pieces(text) if isinstance(each, InlineText))
    translated = Translation(
        "Lies das Handbuch und dies.", 0.0, 0.0, finished=True, alignment=[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    )
    assert first.restore(translated) == "Lies [das *Handbuch*][the *Manual*] und [dies][this]."


HOSTILE = [
    "[", "](", "![", "`", "*", "_a_ ", "**a", "<a ", "<code>", "> ", "- ", "    ", "|", "a|", "#", "```\n", "&",
    "a\n-|-\n", "<!--", "\\", "[a]: ", "~~~", " ", "\n>", "``` ", "[^", "<b>", "a<b>b</b>",
]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_markdown_takes_little_time(part: str) -> None:
    text = part * (10_000 // len(part))
    start = time.process_time()
    copied(text)
    assert time.process_time() - start < 5
