"""Pairs of text files with one sentence per line."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from heed.data.formats.fields import one_line
from heed.data.formats.files import file_identity, file_size
from heed.data.formats.lines import read_lines
from heed.data.text import BLOCK, Advance, Block
from heed.errors import HeedError


@dataclass(frozen=True)
class TextFiles:
    """Two text files with one sentence per line."""

    src: Path
    tgt: Path

    @property
    def name(self) -> str:
        return f"{self.src} and {self.tgt}"

    @property
    def size(self) -> int:
        return file_size(self.src, self.tgt)

    def identity(self) -> tuple[Any, ...]:
        return "text", file_identity(self.src, self.tgt)

    def blocks(self, advance: Advance) -> Iterator[Block]:
        if self.src.samefile(self.tgt):
            raise HeedError(
                f"{self.src} is given for both sides: give a source file and a target file, or one table with both "
                "columns as '[table.tsv]' (to train on identical sides, give a copy of the file)."
            )
        src_lines, tgt_lines, count = read_lines(self.src, advance), read_lines(self.tgt, advance), 0
        while True:
            block = Block(list(map(one_line, islice(src_lines, BLOCK))), list(map(one_line, islice(tgt_lines, BLOCK))))
            if len(block.src) != len(block.tgt):
                src, tgt = (len(block.src) + sum(1 for _ in src_lines), len(block.tgt) + sum(1 for _ in tgt_lines))
                raise HeedError(
                    f"{self.src} has {count + src:,} lines and {self.tgt} {count + tgt:,}: line n of one file must be "
                    "the translation of line n of the other."
                )
            if not block:
                return
            yield block
            count += len(block)
