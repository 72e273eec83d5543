"""Pairs of text files with one sentence per line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from heed.data.formats.identity import file_identity
from heed.data.formats.lines import LineRange, cut_files, different_lengths, one_line
from heed.data.text import Advance, Block, Part
from heed.errors import HeedError


@dataclass(frozen=True)
class TextFiles:
    """Two text files with one sentence per line."""

    src: Path
    tgt: Path

    def identity(self) -> tuple[Any, ...]:
        return "text", file_identity(self.src, self.tgt)

    def parts(self) -> Sequence[Part]:
        file_identity(self.src, self.tgt)
        if self.src.samefile(self.tgt):
            raise HeedError(
                f"{self.src} is given for both sides: give a source file and a target file, or one table with both "
                "columns as '[table.tsv]' (to train on identical sides on purpose, give a copy of the file)."
            )
        return [TextPart(src, tgt) for src, tgt in cut_files(self.src, self.tgt)]


@dataclass(frozen=True)
class TextPart:
    """The same lines of two text files."""

    src: LineRange
    tgt: LineRange

    @property
    def name(self) -> str:
        return f"{self.src.name} and {self.tgt.file}"

    @property
    def size(self) -> int:
        return self.src.size + self.tgt.size

    def read(self, advance: Advance) -> Iterator[Block]:
        src_lines, tgt_lines = self.src.first, self.tgt.first
        src: list[str]
        tgt: list[str]
        for src, tgt in zip_longest(self.src.read(advance), self.tgt.read(advance), fillvalue=[]):
            src_lines, tgt_lines = src_lines + len(src), tgt_lines + len(tgt)
            if len(src) == len(tgt):
                yield Block([one_line(text) for text in src], [one_line(text) for text in tgt])
        if src_lines != tgt_lines:
            raise different_lengths(self.src.file, src_lines, self.tgt.file, tgt_lines)
