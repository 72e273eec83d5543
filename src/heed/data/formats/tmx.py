"""TMX: translation memories."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heed.data.formats.compression import DAMAGED, opened
from heed.data.formats.fields import BlockBuilder, Fields
from heed.data.formats.identity import file_identity
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line


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
        from xml.parsers import expat

        units = _TmxUnits()
        fields = replace(self.fields, score=None)
        block, position, found = BlockBuilder(fields), 0, False
        with opened(self.file) as (content, disk):
            try:
                while chunk := content.read(2**20):
                    units.feed(chunk)
                    for unit in units.take():
                        if pair := _find_pair(unit, self.fields.languages):
                            block.add_values(*pair)
                            found = True
                    if len(block.src) >= BLOCK:
                        yield block.block()
                        block = BlockBuilder(fields)
                    advance(disk.tell() - position)
                    position = disk.tell()
                units.close()
            except (expat.ExpatError, ValueError, LookupError, *DAMAGED) as error:
                raise HeedError(f"{self.file} cannot be read as TMX: {first_line(error)}.") from error
        if not found:
            src, tgt = self.fields.languages
            known = ", ".join(sorted(units.languages)) or "none"
            raise HeedError(f"{self.file} has no unit in both {src} and {tgt} (its languages: {known}).")
        yield block.block()


def _find_pair(unit: Sequence[tuple[str, str]], languages: Sequence[str | None]) -> list[str] | None:
    """Return the texts of a unit in two languages; None if it lacks one of them."""
    codes = [_normal_code(code) for code, _ in unit]
    src, tgt = (_find_language(codes, _normal_code(str(language))) for language in languages)
    return None if src is None or tgt is None or src == tgt else [unit[src][1], unit[tgt][1]]


def _find_language(codes: Sequence[str], wanted: str) -> int | None:
    """Return where a language is: "en", or otherwise a variant of it such as "en-us"."""
    if wanted in codes:
        return codes.index(wanted)
    return next((index for index, code in enumerate(codes) if code.split("-")[0] == wanted), None)


def _normal_code(code: str) -> str:
    return code.lower().replace("_", "-")


class _TmxUnits:
    """Collects the translation units of a TMX file as lists of (language, text)."""

    CODES = ("bpt", "ept", "ph", "it", "ut", "sub")
    """Elements in a sentence that are not text."""

    def __init__(self) -> None:
        from xml.parsers import expat

        self.languages: set[str] = set()
        self._units: list[list[tuple[str, str]]] = []
        self._unit: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None
        self._codes = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._refuse_declaration
        self._parser.SkippedEntityHandler = self._refuse_entity

    def feed(self, chunk: bytes) -> None:
        """Parse more of the file."""
        self._parser.Parse(chunk, False)

    def close(self) -> None:
        """Parse the end of the file."""
        self._parser.Parse(b"", True)

    def take(self) -> list[list[tuple[str, str]]]:
        """Return the units that were completed since the last call."""
        units, self._units = self._units, []
        return units

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = []
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
            self.languages.add(self._language)
        elif name == "seg":
            self._text = []
        elif name in self.CODES:
            self._codes += 1

    def _end(self, name: str) -> None:
        if name == "seg" and self._text is not None:
            self._unit.append((self._language, "".join(self._text).strip()))
            self._text = None
        elif name == "tu":
            self._units.append(self._unit)
        elif name in self.CODES:
            self._codes -= 1

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._text.append(text)

    def _refuse_entity(self, name: str, *_: Any) -> None:
        # The DTD that declares it is not read. Without this handler, expat leaves the character out.
        raise ValueError(f"the entity &{name}; in line {self._parser.CurrentLineNumber:,} is unknown")

    def _refuse_declaration(self, *_: Any) -> None:
        # A few nested entities can expand to gigabytes.
        raise ValueError("it declares entities, which a translation memory does not need: remove its DOCTYPE")
