"""Pairs of text files with one sentence per line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from heed.data.formats.fields import one_line
from heed.data.formats.files import file_identity, find_compression
from heed.data.formats.lines import LineRange, cut_files, different_lengths
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError


@dataclass(frozen=True)
class TextFiles:
    """Two text files with one sentence per line."""

    src: Path
    tgt: Path

    def identity(self) -> tuple[Any, ...]:
        return "text", file_identity(self.src, self.tgt)

    def parts(self) -> Sequence[Part]:
        for file in (self.src, self.tgt):
            find_compression(file)
        if self.src.samefile(self.tgt):
            raise HeedError(
                f"{self.src} is given for both sides: give a source file and a target file, or one table with both "
                "columns as '[table.tsv]' (to train on identical sides on purpose, give a copy of the file)."
            )
        return [
            Part(f"{src.name} and {tgt.file}", src.size + tgt.size, partial(_read_pairs, src, tgt))
            for src, tgt in cut_files(self.src, self.tgt)
        ]


def _read_pairs(src: LineRange, tgt: LineRange, advance: Advance) -> Iterator[Block]:
    src_lines, tgt_lines, count = src.read(advance), tgt.read(advance), src.first
    while True:
        block = Block(list(map(one_line, islice(src_lines, BLOCK))), list(map(one_line, islice(tgt_lines, BLOCK))))
        if len(block.src) != len(block.tgt):
            lengths = (len(block.src) + sum(1 for _ in src_lines), len(block.tgt) + sum(1 for _ in tgt_lines))
            raise different_lengths(src.file, count + lengths[0], tgt.file, count + lengths[1])
        if not block:
            return
        yield block
        count += len(block)
