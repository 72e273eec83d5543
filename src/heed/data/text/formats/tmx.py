"""Read TMX files (translation memories)."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from heed.data.text.formats.fields import FileSource
from heed.data.text.formats.files import read_bytes
from heed.data.text.source import Advance, Block
from heed.errors import HeedError, first_line
from heed.languages import find_language

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

CODES = ("bpt", "ept", "ph", "it", "ut", "sub")  # formatting codes: elements in a sentence that are not text


def read_tmx(source: FileSource, advance: Advance) -> Iterator[Block]:
    """Read a translation memory (TMX 1.4), without scores.

    Formatting codes and units without both languages are skipped.
    """
    if None in source.fields.languages:
        raise HeedError(f"{source.file}: a TMX file may have many languages: set data.src_lang and data.tgt_lang.")
    src, tgt = map(str, source.fields.languages)
    languages, found = set[str](), False

    def pair(unit: Element) -> list[str] | None:
        texts = {tuv.get(LANGUAGE) or tuv.get("lang") or "": tuv.find("seg") for tuv in unit.iter("tuv")}
        languages.update(texts)
        sides = [texts.get(find_language(language, texts) or "") for language in (src, tgt)]
        if sides[0] is None or sides[1] is None or sides[0] is sides[1]:
            return None
        return [_text(sides[0]).strip(), _text(sides[1]).strip()]

    for block in source.read_records("unit", enumerate(_units(source.file, advance), 1), pair):
        found = True
        yield block
    if not found:
        known = ", ".join(sorted(languages)) or "none"
        raise HeedError(f"{source.file} has no unit in both {src} and {tgt} (its languages: {known}).")


def _units(file: Path, advance: Advance) -> Iterator[Element]:
    """Yield the units one by one, in constant memory."""
    parser: Any = XMLPullParser(("start", "end"))
    body = Element("body")
    try:
        for chunk in chain(read_bytes(file, advance), [None]):
            parser.close() if chunk is None else parser.feed(chunk)
            for event, element in parser.read_events():
                if event == "start" and element.tag == "body":
                    body = element
                if event == "end" and element.tag == "tu":
                    yield element
                    body.clear()
    except HeedError:
        raise
    except (ParseError, ValueError, LookupError) as error:
        raise HeedError(f"{file} cannot be read as TMX: {first_line(error)}.") from error


def _text(element: Element) -> str:
    """Return the text of a segment without formatting codes."""
    inner = (("" if child.tag in CODES else _text(child)) + (child.tail or "") for child in element)
    return (element.text or "") + "".join(inner)
