"""Find the text nodes of HTML."""

from html.parser import HTMLParser
from typing import Any, NamedTuple

from heed.serve.errors import ApiError

KEPT = frozenset({"code", "kbd", "pre", "samp", "script", "style", "template", "textarea", "var"})
"""Elements whose text is not translated."""

VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
"""Elements without an end tag."""


class TextNode(NamedTuple):
    """Text to translate, without character references."""

    text: str


def parse(text: str) -> list[str | TextNode]:
    """Split HTML into text nodes and unchanged strings between them.

    Elements in `KEPT` and elements with ``translate="no"`` or ``class="notranslate"`` have no text nodes.

    Raises:
        ApiError: if a tag or a comment is not closed, or a declaration is malformed.
    """
    parser = _Parser(text)
    try:
        parser.feed(text)
    except AssertionError as error:  # html.parser fails on a declaration such as <![x[
        raise ApiError("This HTML cannot be translated: a declaration (<![…) is malformed.") from error
    return parser.finish()


def text_of(text: str) -> str:
    """Return the text nodes of HTML, separated by spaces. Errors: see `parse`."""
    return " ".join(node.text for node in parse(text) if isinstance(node, TextNode))


class _Parser(HTMLParser):
    """Collects the pieces. Everything except text nodes is copied from the source, not re-serialised."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str | TextNode] = []
        self._source = source
        self._line_starts = [0, *(index + 1 for index, char in enumerate(source) if char == "\n")]
        self._start = 0
        """Start of the current piece in the source."""
        self._text: str | None = None
        """The text of the current piece; None for markup."""
        self._kept: list[str] = []
        """The open elements, starting at the outermost one whose text is not translated."""

    def finish(self) -> list[str | TextNode]:
        """End the last piece, and return all pieces."""
        rest = self.rawdata
        is_open = rest.startswith(("<!", "</", "<?")) or (rest.startswith("<") and rest[1:2].isalpha())
        if is_open or self.cdata_elem is not None:  # in <script> or <style>
            raise ApiError("This HTML cannot be translated: a tag or a comment is not closed.")
        self.close()
        self._end_piece(len(self._source))
        return self.pieces

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin_piece(None)
        values = {name: value or "" for name, value in attrs}
        is_marked = values.get("translate", "").lower() == "no" or "notranslate" in values.get("class", "").split()
        if (self._kept or tag in KEPT or is_marked) and tag not in VOID:
            self._kept.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element and all unclosed elements inside it."""
        self._begin_piece(None)
        if tag in self._kept:
            while self._kept.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._text is None or self._kept:
            self._begin_piece(None if self._kept else data)
        else:
            self._text += data

    def _copy(self, *_: Any, **__: Any) -> None:
        """Copy markup: an element such as ``<br/>``, a comment, a declaration or a processing instruction."""
        self._begin_piece(None)

    handle_startendtag = handle_comment = handle_decl = handle_pi = unknown_decl = _copy

    def _begin_piece(self, text: str | None) -> None:
        line, column = self.getpos()
        self._end_piece(self._line_starts[line - 1] + column)
        self._text = text

    def _end_piece(self, end: int) -> None:
        if end > self._start:
            self.pieces.append(self._source[self._start : end] if self._text is None else TextNode(self._text))
        self._start = end
