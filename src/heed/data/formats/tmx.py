"""TMX: translation memories."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from heed.data.formats.compression import DAMAGED, opened
from heed.data.formats.fields import BlockBuilder, Fields
from heed.data.formats.identity import file_identity
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

CODES = ("bpt", "ept", "ph", "it", "ut", "sub")
"""Elements in a sentence that are not text."""


@dataclass(frozen=True)
class TmxFile:
    """A translation memory (TMX 1.4). Units without both languages are skipped, and so are formatting codes.

    It has no scores.
    """

    file: Path
    fields: Fields

    @property
    def name(self) -> str:
        return str(self.file)

    @property
    def size(self) -> int:
        return self.file.stat().st_size

    def identity(self) -> tuple[Any, ...]:
        return "tmx", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        file_identity(self.file)
        if None in self.fields.languages:
            raise HeedError(f"{self.file}: a TMX file may have many languages: set data.src_lang and data.tgt_lang.")
        return [self]

    def read(self, advance: Advance) -> Iterator[Block]:
        src, tgt = (_normal_code(str(language)) for language in self.fields.languages)
        fields, languages = replace(self.fields, score=None), set[str]()
        block, position, found, body = BlockBuilder(fields), 0, False, ElementTree.Element("body")
        with opened(self.file) as (content, disk):
            try:
                for event, element in ElementTree.iterparse(content, ("start", "end")):
                    if event == "start" and element.tag == "body":
                        body = element
                    if event == "start" or element.tag != "tu":
                        continue
                    texts = {tuv.get(LANGUAGE) or tuv.get("lang") or "": tuv.find("seg") for tuv in element.iter("tuv")}
                    languages |= texts.keys()
                    sides = [_find_language(texts, code) for code in (src, tgt)]
                    if None not in sides and sides[0] is not sides[1]:
                        block.add_values(*(_text(side).strip() for side in sides if side is not None))
                        found = True
                    body.clear()
                    if len(block.src) >= BLOCK:
                        yield block.block()
                        block = BlockBuilder(fields)
                        advance(disk.tell() - position)
                        position = disk.tell()
                advance(disk.tell() - position)
            except (ElementTree.ParseError, ValueError, LookupError, *DAMAGED) as error:
                raise HeedError(f"{self.file} cannot be read as TMX: {first_line(error)}.") from error
        if not found:
            known = ", ".join(sorted(languages)) or "none"
            wanted = " and ".join(map(str, self.fields.languages))
            raise HeedError(f"{self.file} has no unit in both {wanted} (its languages: {known}).")
        yield block.block()


def _text(element: ElementTree.Element) -> str:
    """Return the text of a segment without formatting codes."""
    inner = ("" if child.tag in CODES else _text(child) for child in element)
    tails = (child.tail or "" for child in element)
    return (element.text or "") + "".join(text + tail for text, tail in zip(inner, tails, strict=True))


def _find_language(texts: Mapping[str, ElementTree.Element | None], wanted: str) -> ElementTree.Element | None:
    """Return the text in a language: "en", or otherwise a variant of it such as "en-us"."""
    codes = {_normal_code(code): text for code, text in texts.items()}
    variants = (text for code, text in codes.items() if code.split("-")[0] == wanted)
    return codes.get(wanted, next(variants, None))


def _normal_code(code: str) -> str:
    return code.lower().replace("_", "-")
