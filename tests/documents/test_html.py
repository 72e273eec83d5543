"""Text nodes of HTML."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count, cycle, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml.html import HtmlElement, document_fromstring

from heed.documents.html import parse
from heed.errors import HeedError


def texts(html: str) -> list[str]:
    return [token.value for token in parse(html) if token.kind == "text"]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("plain", ["plain"]),
        ("<p>a<b>b</b>c", ["a", "b", "c"]),
        ("a &amp; b &lt;c&gt; &auml;&#228;", ["a & b <c> ää"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
        ("a<!-- no -->b<!DOCTYPE html>c<?php x ?>d", ["a", "b", "c", "d"]),
        ("a<script>if (a < b) { '<p>' }</script>b<style>p {}</style>", ["a", "b"]),
        ("a<code>x <b>y</b></code>b<pre>z</pre>", ["a", "b"]),
        ('a<span translate="no">Heed <i>x</i></span>b', ["a", "b"]),
        ('a<span class="x notranslate">Heed<br>x</span>b', ["a", "b"]),
        ('a<img translate="no">b', ["a", "b"]),
        ("", []),
        # End tags that may be omitted.
        ('<ul><li translate="no">heed<li>a</ul><p>b', ["a", "b"]),
        ('<ul><li translate="no">heed<ul><li>x</ul>y<li>a</ul>', ["a"]),
        ('<p class="notranslate">Code.<p>a</p><p>b', ["a", "b"]),
        ('<p translate="no">x<b>y<div>a</div>', ["a"]),
        ('<p translate="no"><button>x<p>y</button>z<p>a', ["a"]),
        ('<table><tr><td translate="no">1<td>a</table><p>b', ["a", "b"]),
        ('<table><tr translate="no"><td>1<td>x<tr><th>a<tbody translate="no"><tr><td>x<tbody><tr><td>b', ["a", "b"]),
        ('<table><tr><td translate="no"><table><tr><td>x</table>y<td>a', ["a"]),
        ('<dl><dt translate="no">x<dd>a<dt>b</dl>', ["a", "b"]),
        (
            '<select><optgroup translate="no"><option>x<optgroup><option>a<option translate="no">y<option>b</select>c',
            ["a", "b", "c"],
        ),
        ('<ruby translate="no">漢<rt translate="yes">a<rp>(<rt>b</ruby>c', ["a", "c"]),
        ('<head translate="no"><title>x</title><body>a', ["a"]),
        # End tags of other elements than the innermost one.
        ("<div><code>x</div>a", ["a"]),
        ("<code>x</b>y</code>a", ["a"]),
        ('<div translate="no"><table><tr><td>x</div>y</table>z</div>a', ["a"]),
        ('<span translate="no"><div>x</span>y</div>z</span>a', ["a"]),
        ('<body translate="no">x</body>y', []),
        # The innermost attribute decides.
        ('<p translate="no">x<b translate="yes">a<i>b</i></b>y<b translate>c</b></p>d', ["a", "b", "c", "d"]),
        ('<pre translate="YES">a<code>x</code></pre>', ["a"]),
        ('<b translate="yes" class="notranslate">x</b><b translate=no translate=yes>y</b>a', ["a"]),
        # A slash before ">" is part of an unquoted value, and otherwise counts in SVG and MathML only.
        ("<p translate='no'/>x</p>a", ["a"]),
        ("<p translate=no/>a</p>", ["a"]),
        ('<svg><g translate="no"/><text>a</text></svg><math translate="no"/>b', ["a", "b"]),
        # Attributes.
        ("""<p title='>"' data-x=">'" a=b"c translate = no>x</p>a""", ["a"]),
        ('<p translate=&quot;no class="a&#32;notranslate">x</p>a', ["a"]),
        # Text that is not markup.
        ("<title>a <b> &amp; b</title>c", ["a <b> & b", "c"]),
        ("<textarea><p>x</textarea ><xmp><p>y</xmp><iframe><p>z</iframe>a", ["a"]),
        ("<SCRIPT translate=yes>'</scripts>'</Script/>a<style><!-- </style>b", ["a", "b"]),
        # Comments, and what counts as one.
        ("a<!-->b<!--->c<!-- - -- > --!>d<![x[b]]>e<![;>f</3>g</>h<!>i", list("abcdefghi")),
    ],
)
def test_text_nodes(html: str, expected: list[str]) -> None:
    assert texts(html) == expected


ATTRIBUTES = st.sampled_from(["", "", "", ' translate="no"', ' translate="yes"', ' class="a notranslate"'])
INLINE, BLOCK = ("b", "i", "span", "em", "code"), ("div", "p", "ul", "ol", "dl", "table", "pre", "blockquote")
CHILDREN = {"ul": ("li",), "ol": ("li",), "dl": ("dt", "dd"), "table": ("tbody",), "tbody": ("tr",), "tr": ("td", "th")}
OPTIONAL = ("li", "p", "dt", "dd", "tbody", "tr", "td", "th")
"""Elements whose end tag may be omitted before another child, before a block, or at the end of the parent."""


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Draw valid HTML, in which optional end tags are omitted at random. Each text is another word."""
    words = map("w{}".format, count())

    def content(name: str, depth: int) -> str:
        if name in CHILDREN:
            # lxml does not know that <dt> ends another one, so kinds take turns.
            return "".join(element(kind, depth) for kind in islice(cycle(CHILDREN[name]), draw(st.integers(1, 3))))
        inner = (*INLINE, *BLOCK) if name in ("div", "li", "td", "th", "blockquote") else INLINE
        kinds = ["text", "text", "<br>", "<!-- <p> -->", "<script>'<p>'</script>", *(["element"] if depth else [])]
        parts = []
        for kind in draw(st.lists(st.sampled_from(kinds), max_size=4)):
            if kind == "element":
                parts.append(element(draw(st.sampled_from(inner)), depth - 1))
            else:
                parts.append(f" {next(words)} " if kind == "text" else kind)
        return "".join(parts)

    def element(name: str, depth: int) -> str:
        start = f"<{name}{draw(ATTRIBUTES)}>{content(name, depth)}"
        # The end of a paragraph may be omitted only before a block, so it is always followed by one here.
        follower = "<div></div>" if name == "p" else ""
        return start + (follower if name in OPTIONAL and draw(st.booleans()) else f"</{name}>")

    return f"<div>{content('div', 3)}</div> end"


def translated_words(element: HtmlElement, *, kept: bool = False) -> Iterator[str]:
    """Yield the words of lxml's tree that are to be translated."""
    if isinstance(element.tag, str) and element.tag != "script":
        marked = element.get("translate")
        inherited = kept if marked is None else marked == "no"
        own = (
            (element.tag in ("code", "pre") and marked != "yes")
            or inherited
            or "notranslate" in element.get("class", "")
        )
        yield from [] if own else (element.text or "").split()
        for child in element:
            yield from translated_words(child, kept=own)
            yield from [] if own else (child.tail or "").split()


@given(html=documents())
@settings(max_examples=100, deadline=None)
def test_text_nodes_are_those_of_another_parser(html: str) -> None:
    expected = list(translated_words(document_fromstring(html)))
    assert " ".join(texts(html)).split() == expected


def test_everything_else_is_copied() -> None:
    html = "<!DOCTYPE html>\n<P Class=a  b='c'>\nx</P ><br/>\n<!-- y --> &amp; <a href='?a=1&b=2'>z</a>\r\n"
    assert "".join(token.markup for token in parse(html)) == html


@pytest.mark.parametrize(
    "html",
    ["<p", "<p a", "<p a=b", "a <b>c</b", "a <!-- b", '<p class="', '<p class=">', "<!DOCTYPE", "<script>a",
     "<title>a</b>", "<![x[", "<![", "<p><![textarea[", "<!DOCTYPE<![-"],
)  # fmt: skip
def test_html_that_does_not_end_is_refused(html: str) -> None:
    with pytest.raises(HeedError, match="not closed"):
        parse(html)


def test_hostile_html_takes_linear_time() -> None:
    for part in ("<a ", "<a b=", "<p a='", "<!--", "<p>" * 2, "</p>", "a=b ", "<" * 2, "<title>"):
        with suppress(HeedError):
            parse(part * (20_000 // len(part)))
