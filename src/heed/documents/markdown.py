"""Find the text of Markdown: CommonMark's blocks and GitHub's tables; links and emphasis are inline elements."""

import re
from collections.abc import Iterator, Set

from heed.documents.html import ELEMENTS, TAG, tag_token
from heed.documents.inline import Kind, Token

FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t\r]*\n(?s:.*?)\n\1[ \t\r]*(?:\n|\Z)")
INDENTATION = re.compile(r"[ \t]*")
QUOTE = re.compile(r"[ \t>]*")
MARKER = r">[ \t]?|(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|\[\^[^\]\n]+\]:[ \t]*"
"""Of a block quote, an item of a list, a task, a footnote."""
MARKERS = re.compile(rf"(?:{MARKER})*")
HEADING = re.compile(r"#{1,6}[ \t]+")
KEPT_BLOCK = re.compile(
    rf"""
    (?P<fence>`{{3,}}(?![^`\n]*`)|~{{3,}}) (?s:.*?) (?:\n[ \t>]*(?P=fence)[`~]*[ \t\r]*(?:\n|\Z)|\Z)
    | (?: <!--(?s:.*?)(?:-->|\Z) | <(?P<raw>script|pre|style|textarea)\b(?s:.*?)(?:</(?P=raw)|\Z) ) .*\n?
    | (?: </?(?!(?:{"|".join(ELEMENTS["inline"])})[\s/>])[a-zA-Z][\w-]*(?=[\s/>]) | <[?!] ) .*\n? (?:.*\S.*(?:\n|\Z))*+
    | \[(?!\^)[^\]\n]+\]:.*\n?                             # the definition of a reference
    | (?: =+ | -+ | (?:[-*_][ \t]*){{3,}} ) [ \t\r]*(?:\n|\Z)    # a rule, or the underline of a heading
    | [ \t\r]*\n
    """,
    re.VERBOSE,
)
TABLE_LINES = re.compile(
    r"(?P<head>(?=.*\|).*\n)(?P<line>(?=.*\|)[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t\r]*(?:\n|\Z))"
    r"(?P<rows>(?:.*\S.*(?:\n|\Z))*+)"
)
CELL_END = re.compile(r"((?<!\\)\||\n)")
NEW_BLOCK = re.compile("|".join((MARKER, HEADING.pattern)))
LABEL = re.compile(r"^[ \t>]*\[(?!\^)([^\]\n]+)\]:", re.MULTILINE)
URL = r"\((?:[^()\\\n]|\\.|\([^()\n]*\))*\)|\[[^\[\]]*\]"
INLINE = re.compile(
    rf"""
    (?P<word> (?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)
        | <[a-zA-Z][\w+.-]+:[^\s<>]*> | <[^\s<>@]+@[^\s<>]+> | https?://[^\s<>()\[\]]*[\w/]
        | <(?P<name>code|kbd|samp|var)\b[^<>]*>.*?</(?P=name)> | &\#?\w+; | \[\^[^\[\]\s]+\] )
    | (?P<kept> !\[(?:[^\[\]\\]|\\.)*\](?:{URL})? | <!--.*?--> | [ ]{{2,}}\r?\n | \\\r?\n | (?<=\S)[ \t]+\#+\s*\Z )
    | (?P<tag> </?[a-zA-Z][^<>]*> )
    | (?P<close> \](?:{URL})? )
    | (?P<mark> \[ | \*+ | _+ | ~~ )
    | \\.
    """,
    re.VERBOSE | re.DOTALL,
)
INLINE_MARK = re.compile(r"\[|\*\*?|__?|~~")


def parse(text: str) -> list[Token]:
    """Split Markdown into text, inline markup and what is kept. The lines of a paragraph are one text."""
    labels = {label.casefold() for label in LABEL.findall(text)}
    front = FRONT_MATTER.match(text)
    position, depth = front.end() if front else 0, 0  # depth: how far the text of a list item is indented
    tokens = [Token("block", text[:position])]
    while position < len(text):
        start, end = position, _line_end(text, position)
        lead = _end(INDENTATION, text, start)
        content = _end(MARKERS, text, lead)
        width, marker = len(text[start:lead].expandtabs(4)), text[lead:content]
        has_text = bool(text[start:end].strip())
        is_code = has_text and (width >= depth + 4 or (marker and text.startswith(("    ", "\t"), content)))
        if has_text and not is_code and (marker.strip("> \t") or not width):
            depth = (width + len(marker)) * bool(marker.strip("> \t"))
        kept = KEPT_BLOCK.match(text, lead) or KEPT_BLOCK.match(text, content)
        if is_code or kept:
            position = kept.end() if kept and not is_code else end
            tokens.append(Token("block", text[start:position]))
            continue
        body = _end(HEADING, text, content)
        tokens.append(Token("block", text[start:body]))
        if table := TABLE_LINES.match(text, content):
            position = table.end()
            tokens += [*_cells(table["head"], labels), Token("block", table["line"]), *_cells(table["rows"], labels)]
            continue
        paragraph, position, quotes = text[body:end], end, text.count(">", start, content)
        while position < len(text) and body == content:
            lead = _end(QUOTE, text, position)
            is_new = any(each.match(text, lead) for each in (KEPT_BLOCK, NEW_BLOCK, TABLE_LINES))
            if is_new or text.count(">", position, lead) > quotes:
                break
            position = _line_end(text, lead)
            paragraph += text[lead:position]
        tokens += [*_inline(paragraph, labels), Token("block", "")]
    return tokens


def _line_end(text: str, position: int) -> int:
    return text.find("\n", position) + 1 or len(text)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _cells(rows: str, labels: Set[str]) -> Iterator[Token]:
    for part in CELL_END.split(rows):
        yield from [Token("block", part)] if part in ("|", "\n") else _inline(part, labels)


def _inline(text: str, labels: Set[str]) -> list[Token]:
    """Split the text of a block. ``labels`` are the references that the document defines."""
    tokens: list[Token] = []
    opened: list[int] = []  # the tokens that may begin an element; they are text until it ends
    position = 0

    def add(kind: Kind, markup: str) -> None:
        if markup:
            tokens.append(Token(kind, markup, markup))

    def last(*marks: str) -> int | None:
        return next((i for i in reversed(range(len(opened))) if tokens[opened[i]].markup in marks), None)

    def close(start: int, markup: str = "") -> str:
        mark = tokens[opened[start]].markup
        tokens[opened[start]] = Token("start", mark, mark)
        tokens.append(Token("end", markup or mark, mark))
        del opened[start:]
        return mark

    for found in INLINE.finditer(text):
        add("text", text[position : found.start()])
        position, markup = found.end(), found[0]
        if tag := TAG.match(markup) if found["tag"] else None:
            tokens.append(tag_token(markup, tag))
        elif found["close"] and (start := last("[")) is not None:
            label = "".join(each.markup for each in tokens[opened[start] + 1 :])
            if markup not in ("]", "][]"):
                close(start, markup)
            elif label.casefold() in labels:
                close(start, f"][{label}]")  # the reference keeps its name
            else:
                del opened[start]
                add("text", markup)
        elif found["mark"]:
            before, after = text[max(0, found.start() - 1) : found.start()], text[position : position + 1]
            begins, ends = bool(after.strip()), bool(before.strip())
            if markup[0] == "_":  # within words, it is a letter
                begins, ends = begins and not before.isalnum(), ends and not after.isalnum()
            while ends and markup:
                start = last(markup)
                if start is None and (start := last(*(markup[:size] for size in range(1, len(markup))))) is None:
                    break
                markup = markup[len(close(start)) :]
            for mark in INLINE_MARK.findall(markup):
                opened += [len(tokens)] * begins
                add("text", mark)
        elif found["kept"]:
            tokens.append(Token("kept", markup, "\n" * markup.endswith("\n")))
        else:
            add("kept" if found["word"] else "text", markup)
    add("text", text[position:])
    return tokens
