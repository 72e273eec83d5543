"""Pairs of files with one side each: one sentence per line, or markup around the sentences."""

import html
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path

from heed.data.text.formats.detect import FORMATS, find_format
from heed.data.text.formats.fields import one_line
from heed.data.text.formats.files import FileSource, read_lines
from heed.data.text.source import BLOCK, Advance, Block
from heed.errors import HeedError

SEGMENT = re.compile(r"<(doc)\b([^>]*)>|<seg\b([^>]*)>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
"""The start of a document with its attributes, or a segment with its attributes and its text."""
ID = re.compile(r"""\b(?:doc)?id\s*=\s*("[^"]*"|'[^']*'|\S+)""", re.IGNORECASE)
"""The name of a document or segment among its attributes."""


class PairedFiles(FileSource):
    """A source and a target file with the same number of sentences."""

    unit = "line"

    def blocks(self, advance: Advance) -> Iterator[Block]:
        src_file, tgt_file = self.files
        if src_file.samefile(tgt_file):
            raise HeedError(
                f"{src_file} is given for both sides: give a source file and a target file, or one table with both "
                "columns as '[table.tsv]' (to train on identical sides, give a copy of the file)."
            )
        src_lines, tgt_lines = self._sentences(src_file, advance), self._sentences(tgt_file, advance)
        count = 0
        while True:
            block = Block(list(map(one_line, islice(src_lines, BLOCK))), list(map(one_line, islice(tgt_lines, BLOCK))))
            if len(block.src) != len(block.tgt):
                src, tgt = (len(block.src) + sum(1 for _ in src_lines), len(block.tgt) + sum(1 for _ in tgt_lines))
                raise HeedError(
                    f"{src_file} has {count + src:,} {self.unit}s and {tgt_file} {count + tgt:,}: {self.unit} n of one "
                    f"file must be the translation of {self.unit} n of the other."
                )
            if not block:
                return
            yield block
            count += len(block)

    def _sentences(self, file: Path, advance: Advance) -> Iterator[str]:
        return read_lines(file, advance)


class TextFiles(PairedFiles):
    """A source and a target file with one sentence per line."""


class MarkedFiles(PairedFiles):
    """A source and a target file, with markup in at least one of them: the SGML and XML of WMT and IWSLT."""

    unit = "sentence"

    def blocks(self, advance: Advance) -> Iterator[Block]:
        marked = [file for file in self.files if find_format(file, in_pair=True) == "segments"]
        names = [[name for name, _ in _segments(file, lambda _: None)] for file in marked]
        for file, own in zip(marked, names, strict=True):
            for name, count in Counter(own).most_common(1):
                if count > 1:
                    raise HeedError(f"{file} has {name} {count} times: keep one of several references.")
        for src, tgt in zip_longest(*names) if len(names) == 2 else ():
            if src != tgt:
                raise HeedError(f"{self.name} have different segments: {src} of one corresponds to {tgt} of the other.")
        yield from super().blocks(advance)

    def _sentences(self, file: Path, advance: Advance) -> Iterator[str]:
        match find_format(file, in_pair=True):
            case "segments":
                return (text for _, text in _segments(file, advance))
            case "talks":
                about = re.compile(FORMATS["talks"]["start"], re.IGNORECASE)
                return (line for line in read_lines(file, advance) if not about.match(line.lstrip()))
            case _:
                return read_lines(file, advance)


def _segments(file: Path, advance: Advance) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each segment. Documents and segments without a name are numbered."""
    documents = segments = 0
    document = ""
    for match in SEGMENT.finditer("\n".join(read_lines(file, advance))):
        found = ID.search(match[2] or match[3] or "")
        if match[1]:
            documents, segments = documents + 1, 0
            document = found[1].strip("\"'") if found else f"number {documents}"
        else:
            segments += 1
            number = found[1].strip("\"'") if found else segments
            yield f"segment {number} of document {document}", html.unescape(one_line(match[4])).strip()
