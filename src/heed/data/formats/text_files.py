"""Pairs of text files with one sentence per line."""

from collections.abc import Iterator
from itertools import islice

from heed.data.formats.fields import one_line
from heed.data.formats.files import FileSource, read_lines
from heed.data.text import BLOCK, Advance, Block
from heed.errors import HeedError


class TextFiles(FileSource):
    """A source and a target file with one sentence per line."""

    def blocks(self, advance: Advance) -> Iterator[Block]:
        src_file, tgt_file = self.files
        if src_file.samefile(tgt_file):
            raise HeedError(
                f"{src_file} is given for both sides: give a source file and a target file, or one table with both "
                "columns as '[table.tsv]' (to train on identical sides, give a copy of the file)."
            )
        src_lines, tgt_lines, count = read_lines(src_file, advance), read_lines(tgt_file, advance), 0
        while True:
            block = Block(list(map(one_line, islice(src_lines, BLOCK))), list(map(one_line, islice(tgt_lines, BLOCK))))
            if len(block.src) != len(block.tgt):
                src, tgt = (len(block.src) + sum(1 for _ in src_lines), len(block.tgt) + sum(1 for _ in tgt_lines))
                raise HeedError(
                    f"{src_file} has {count + src:,} lines and {tgt_file} {count + tgt:,}: line n of one file must be "
                    "the translation of line n of the other."
                )
            if not block:
                return
            yield block
            count += len(block)
