"""Inline markup around the words of translations: properties on random trees, and examples."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.documents.inline import Element, InlineText, Token, inline_texts, place
from heed.inference.outputs import Translation

Link = tuple[int, int]
Tree = tuple[list[Element], str, str, list[Link]]


def translation(text: str, links: list[Link]) -> Translation:
    return Translation(text, 0.0, 0.0, finished=True, alignment=links)


def placed(source: str, target: str, links: list[Link]) -> str:
    """Place the elements of a source with tags ``<a>…</a>``, and write the translation with them."""
    tokens = []
    for part in re.split(r"(</?\w>)", source):
        kind = "start" if re.fullmatch(r"<\w>", part) else "end" if re.fullmatch(r"</\w>", part) else "text"
        tokens.append(Token(kind, part, part.strip("</>") if kind != "text" else part))
    (text,) = (each for each in inline_texts(tokens, str, aligned=True) if isinstance(each, InlineText))
    return text.restore(translation(target, links))


def in_order(count: int) -> list[Link]:
    return [(i, i) for i in range(count)]


@pytest.mark.parametrize(
    ("source", "links", "expected"),
    [
        ("The <b>big</b> dog", in_order(3), "Der <b>große</b> Hund"),
        ("The <b>dog big</b>", [(0, 0), (1, 2), (2, 1)], "Der <b>große Hund</b>"),
        ("<b>The</b> <i>big</i> dog", [(0, 2), (1, 1), (2, 0)], "Der <i>große</i> <b>Hund</b>"),
        ("The <b>big <i>dog</i></b>", [(0, 0), (1, 2), (2, 1)], "Der <b><i>große</i> Hund</b>"),
        ("<b>The <i>big</i> dog</b>", [], "<b><i></i>Der große Hund</b>"),
        ("<b><i>The big</i></b> dog", in_order(3), "<b><i>Der große</i></b> Hund"),
        # Without an aligned word: after the element before it.
        ("The <b>big</b> <i>old</i> dog", [(0, 0), (1, 1), (3, 2)], "Der <b>große</b><i></i> Hund"),
        ("<i>Well</i> the <b>big</b> dog", [(1, 0), (2, 1), (3, 2)], "<i></i>Der <b>große</b> Hund"),
        # Both source words are one word of the translation: it belongs to the first.
        ("<b>big</b> <i>dog</i> sees it", [(0, 0), (1, 0), (2, 1), (3, 2)], "<b>Der</b><i></i> große Hund"),
        # A gap of one other word is cheaper than half of the element; a gap of two is not.
        ("<b>one two three</b> x", [(0, 0), (3, 1), (1, 2)], "<b>Der</b> große Hund"),
        ("<b>one two three</b> x", [(0, 0), (1, 0), (2, 2), (0, 1)], "<b>Der große Hund</b>"),
    ],
)
def test_an_element_is_around_the_aligned_words(source: str, links: list[Link], expected: str) -> None:
    assert placed(source, "Der große Hund", links) == expected


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("See <b>this</b>, please.", "Bitte, sieh dies.", [(0, 1), (1, 2), (2, 0)], "Bitte, sieh <b>dies</b>."),
        ("See <b>this,</b> please.", "Sieh dies, bitte.", in_order(3), "Sieh <b>dies,</b> bitte."),
        ('He said "<b>come</b>".', "Er sagte „komm“.", in_order(3), "Er sagte „<b>komm</b>“."),
        ("(<b>big</b> dog)", "(Hund groß)", [(0, 1), (1, 0)], "(Hund <b>groß</b>)"),
        ("<b>Stop!</b> Now.", "Halt! Jetzt.", in_order(2), "<b>Halt!</b> Jetzt."),
        ("H<b>2</b>SO<b>4</b> burns", "H2SO4 brennt", in_order(2), "H<b>2</b>SO<b>4</b> brennt"),
        ("H<b>2</b>O is", "Haut ist", in_order(2), "<b>Haut</b> ist"),
        ("<b>un</b>usual thing", "seltenes Ding", in_order(2), "<b>seltenes</b> Ding"),
        ("<b>…</b> the end", "… das Ende", in_order(3), "<b>…</b> das Ende"),
    ],
)
def test_what_is_at_the_edge_of_a_word_stays_outside(
    source: str, target: str, links: list[Link], expected: str
) -> None:
    assert placed(source, target, links) == expected


WORDS = ["a", "Hund", "(x)", "y.", "„z“", "2", "\uf8f0", "b\uf8f1,"]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draw nested elements, each around some text, a translation, and links; some links point nowhere."""
    source, target = (" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=8))) for _ in range(2))
    elements: list[Element] = []

    def add(first: int, last: int, parent: int) -> None:
        edges = sorted(draw(st.lists(st.integers(first, last), max_size=6)))
        for start, stop in zip(edges[::2], edges[1::2], strict=False):
            if source[start:stop].strip():
                number = len(elements)
                elements.append(Element((start, stop), (f"<{number}>", f"</{number}>"), parent))
                add(start, stop, number)

    add(0, len(source), -1)
    numbers = st.integers(0, 9)
    return elements, source, target, draw(st.lists(st.tuples(numbers, numbers), max_size=12))


def check_tags(elements: list[Element], found: list[tuple[int, str]], target: str) -> None:
    """Check that the tags are in order, nest as in the source, and are there once each."""
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert all(0 <= at <= len(target) for at, _ in found)
    assert sorted(tag for _, tag in found) == sorted(tag for each in elements for tag in each.tags)
    opened = [-1]
    for _, tag in found:
        number = int(tag.strip("</>"))
        if tag.startswith("</"):
            assert opened.pop() == number
        else:
            assert elements[number].parent == opened[-1]
            opened.append(number)


@given(trees())
def test_tags_nest_as_in_the_source(tree: Tree) -> None:
    elements, source, target, links = tree
    check_tags(elements, place(elements, source, target, links, {"\uf8f0", "\uf8f1"}), target)


@given(trees())
def test_an_element_around_a_whole_text_stays_so(tree: Tree) -> None:
    elements, source, target, links = tree
    if source.strip():
        inner = [Element(each.span, (f"<{i}>", f"</{i}>"), each.parent + 1) for i, each in enumerate(elements, 1)]
        whole = [Element((0, len(source)), ("<0>", "</0>"), -1), *inner]
        found = place(whole, source, target, links)
        check_tags(whole, found, target)
        assert (found[0], found[-1]) == ((0, "<0>"), (len(target), "</0>"))


# ---- kept markup


def kept_text(text: str) -> InlineText:
    """Return the text of tokens: ``[br]`` is kept markup."""
    tokens = [
        Token("kept", part, part) if part[:1] == "[" else Token("text", part, part) for part in split(text) if part
    ]
    (found,) = (each for each in inline_texts(tokens, str, aligned=True) if isinstance(each, InlineText))
    return found


def split(text: str) -> list[str]:
    return re.split(r"(\[\w+\])", text)


def test_kept_markup_is_one_character() -> None:
    assert kept_text("a [x] b[y][z], c").text == "a \uf8f0 b\uf8f1, c"
    assert kept_text("a [x] \uf8f0 b").kept == {"\uf8f1": "[x]"}  # the document has the character itself


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("B \uf8f1 A \uf8f0.", "B [y] A [x]."),
        ("B A \uf8f0.", "B A [x]. [y]"),  # missing
        ("B \uf8f1 \uf8f1 A\uf8f0\uf8f0.", "B [y]  A[x]."),  # twice
        ("", "[x] [y]"),
    ],
)
def test_kept_markup_is_in_the_translation_once(target: str, expected: str) -> None:
    text = kept_text("a [x] b [y].")
    assert text.restore(translation(target, [])).strip() == expected


def test_kept_markup_is_aligned_with_itself() -> None:
    tokens = [
        Token("text", "Press ", "Press "), Token("start", "<b>", "b"), Token("text", "the key ", "the key "),
        Token("kept", "<kbd>", "x"), Token("end", "</b>", "b"), Token("text", " now", " now"),
    ]  # fmt: skip
    (text,) = (each for each in inline_texts(tokens, str, aligned=True) if isinstance(each, InlineText))
    links = [(0, 3), (1, 0), (2, 1), (4, 2)]  # attention on the placeholder goes astray
    assert text.restore(translation("die Taste \uf8f0 jetzt", links)) == "<b>die Taste <kbd></b> jetzt"


def test_more_placeholders_than_one_block_has() -> None:
    text = kept_text("a " + "[x] b " * 7000)
    assert len(text.kept) == 7000
    assert text.restore(translation(text.text, [])) == ("a " + "[x] b " * 7000).strip()


def test_a_no_break_space_between_copied_words_is_restored() -> None:
    (text,) = (
        each
        for each in inline_texts([Token("text", "", "10\xa0km and 5\xa0m")], str, aligned=True)
        if isinstance(each, InlineText)
    )
    assert text.restore(translation("5 Meter und 10 km", [])) == "5 Meter und 10\xa0km"
