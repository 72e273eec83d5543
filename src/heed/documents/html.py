"""Find the text of HTML as a browser does. html.toml has the tables of elements."""

import re
import tomllib
from collections.abc import Collection, Mapping
from html import unescape
from pathlib import Path
from typing import Any

from heed.documents.inline import Token
from heed.errors import HeedError

# Not html.parser, because patch releases of Python change how it reads comments, declarations and scripts.
MARKUP_START = re.compile(r"<[a-zA-Z/!?]")
COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)|<(?!!--)[^>]*>", re.DOTALL)
"""A comment or what browsers treat as one: a declaration, a processing instruction, ``</`` before another character."""
TAG = re.compile(r"<(/?)([a-zA-Z][^ \t\n\f\r/>]*)")
ATTRIBUTE = re.compile(
    r"""[ \t\n\f\r/]*([^ \t\n\f\r/>][^ \t\n\f\r/>=]*)"""
    r"""(?:[ \t\n\f\r]*=[ \t\n\f\r]*("[^"]*"?|'[^']*'?|[^ \t\n\f\r>]*))?"""
)
TAG_END = re.compile(r"[ \t\n\f\r/]*>")

ELEMENTS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SCOPE_LIMITS: Mapping[str, Collection[str]] = {
    **dict.fromkeys([*ELEMENTS["special"], *ELEMENTS["formatting"]], ELEMENTS["limits"]["scope"]),
    **dict.fromkeys(ELEMENTS["table"], ELEMENTS["limits"]["table"]),
}
"""By the name of an end tag: the elements at which the search for its start tag ends. Other names: special elements."""


def parse(text: str) -> list[Token]:
    """Split HTML into text, tags of inline elements (``inline`` of html.toml), and what is kept.

    The attributes ``translate="no"`` and ``class="notranslate"`` and the elements ``kept`` of html.toml exclude the
    text in an element, and ``translate="yes"`` includes it again.

    Raises:
        HeedError: if a tag, a comment, or an element with raw text is not closed.
    """
    tokens: list[Token] = []
    elements = _OpenElements()
    position = 0
    while markup := MARKUP_START.search(text, position):
        start, raw = markup.start(), None
        tokens.append(elements.text(text[position:start]))
        if tag := TAG.match(text, start):
            name = tag[2].lower()
            attributes, position = _read_attributes(text, tag.end())
            if not tag[1]:
                raw = elements.start(name, attributes, is_closed=text.endswith("/>", start, position))
            elif name not in ELEMENTS["unending"]:
                elements.close([name], SCOPE_LIMITS.get(name, ELEMENTS["special"]))
            tokens.append(tag_token(text[start:position], tag))
        else:
            position = _found(COMMENT.match(text, start)).end()
            tokens.append(Token("kept", text[start:position]))
        if raw:
            end = _found(re.compile(rf"</{raw}(?=[ \t\n\f\r/>])", re.IGNORECASE).search(text, position)).start()
            content = text[position:end]
            tokens.append(elements.text(content) if raw in ELEMENTS["escapable_raw"] else Token("block", content))
            position = end
    tokens.append(elements.text(text[position:]))
    return [token for token in tokens if token.markup]


def tag_token(markup: str, tag: re.Match[str]) -> Token:
    """Return the token of a tag, given the match of `TAG`."""
    name = tag[2].lower()
    if name not in ELEMENTS["inline"]:
        return Token("block", markup)
    if name in ELEMENTS["void"]:
        return Token("kept", markup, "\n" * (name == "br"))
    return Token("end" if tag[1] else "start", markup, name)


class _OpenElements:
    """The elements that have started and not ended, the innermost last."""

    def __init__(self) -> None:
        self._names = [""]
        self._kept = [False]
        """For each, whether its text is not translated."""

    def text(self, content: str) -> Token:
        return Token("kept" if self._kept[-1] else "text", content, unescape(content))

    def start(self, name: str, attributes: Mapping[str, str], *, is_closed: bool) -> str | None:
        """Open an element; return its name if its content is raw text."""
        for rule in ELEMENTS["implied"]:
            if name in rule["opens"]:
                self.close(rule["closes"], ELEMENTS["limits"][rule["limit"]])
        is_foreign = any(each in ELEMENTS["foreign"] for each in (name, *self._names))
        if name in ELEMENTS["void"] or (is_foreign and is_closed):
            return None
        translate = attributes.get("translate", "inherit").lower()
        is_kept = translate == "no" or "notranslate" in attributes.get("class", "").split()
        inherits = translate not in ("", "yes")
        self._kept.append(is_kept or (inherits and (name in ELEMENTS["kept"] or self._kept[-1])))
        self._names.append(name)
        return name if name in (*ELEMENTS["raw"], *ELEMENTS["escapable_raw"]) and not is_foreign else None

    def close(self, names: Collection[str], limit: Collection[str]) -> None:
        """Close the innermost element with one of these names, unless it is outside of an element in ``limit``."""
        for depth in reversed(range(1, len(self._names))):
            if self._names[depth] in names:
                del self._names[depth:], self._kept[depth:]
                return
            if self._names[depth] in limit:
                return


def _read_attributes(text: str, position: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, the first of each name as in HTML, and the position after the tag."""
    attributes: dict[str, str] = {}
    while not (end := TAG_END.match(text, position)):
        attribute = _found(ATTRIBUTE.match(text, position))
        value = attribute[2] or ""
        attributes.setdefault(attribute[1].lower(), unescape(value[1:-1] if value[:1] in ("'", '"') else value))
        position = attribute.end()
    return attributes, end.end()


def _found(match: re.Match[str] | None) -> re.Match[str]:
    if match is None:
        raise HeedError("This HTML cannot be translated: a tag or a comment is not closed.")
    return match
