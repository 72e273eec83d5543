"""Pairs of files with one side each: one sentence per line, or markup around the sentences."""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path

from heed.data.text.formats.detect import FORMATS, find_format
from heed.data.text.formats.fields import FileSource, one_line
from heed.data.text.formats.files import read_lines
from heed.data.text.source import BLOCK, Advance, Sentences
from heed.errors import HeedError

SEGMENT = re.compile(r"<(doc)\b([^>]*)>|<seg\b([^>]*)>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
"""The start of a document with its attributes, or a segment with its attributes and its text."""
ID = re.compile(r"""\b(?:doc)?id\s*=\s*("[^"]*"|'[^']*'|\S+)""", re.IGNORECASE)
"""The name of a document or segment among its attributes."""


def read_text(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read two files with one sentence per line."""
    return _read_pair(source.files, [read_lines(file, advance) for file in source.files], "line")


def read_marked(source: FileSource, advance: Advance) -> Iterator[Sentences]:
    """Read two files, with markup in at least one of them: the SGML and XML of WMT and IWSLT."""
    marked = [file for file in source.files if find_format(file, in_pair=True) == "segments"]
    names = [[name for name, _ in _segments(file, lambda _: None)] for file in marked]
    for file, own in zip(marked, names, strict=True):
        for name, count in Counter(own).most_common(1):
            if count > 1:
                raise HeedError(f"{file} has {name} {count} times: keep one of several references.")
    for src, tgt in zip_longest(*names) if len(names) == 2 else ():
        if src != tgt:
            raise HeedError(f"{source.name} have different segments: {src} of one corresponds to {tgt} of the other.")
    yield from _read_pair(source.files, [_sentences(file, advance) for file in source.files], "sentence")


def _read_pair(files: Sequence[Path], sides: Sequence[Iterator[str]], unit: str) -> Iterator[Sentences]:
    """Yield the pairs of a source and a target file with the same number of sentences."""
    src_file, tgt_file = files
    if src_file.samefile(tgt_file):
        raise HeedError(
            f"{src_file} is given for both sides: give a source file and a target file, or one table with both "
            "columns as '[table.tsv]' (to train on identical sides, give a copy of the file)."
        )
    count = 0
    while True:
        src, tgt = ([one_line(line) for line in islice(side, BLOCK)] for side in sides)
        if len(src) != len(tgt):
            lines = [count + len(own) + sum(1 for _ in side) for own, side in zip((src, tgt), sides, strict=True)]
            raise HeedError(
                f"{src_file} has {lines[0]:,} {unit}s and {tgt_file} {lines[1]:,}: {unit} n of one file must be the "
                f"translation of {unit} n of the other."
            )
        if not src:
            return
        yield Sentences(src, tgt)
        count += len(src)


def _sentences(file: Path, advance: Advance) -> Iterator[str]:
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
