"""Lines of text files, in ranges that processes read independently."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from heed.data.formats.files import find_compression, read_bytes
from heed.data.text import Advance
from heed.errors import HeedError
from heed.progress import progress_bar

PART = 100_000
"""Lines of the largest part of a file that is not compressed."""

SCANNED = 2**24
"""Bytes that are searched for line ends at a time. Smaller files are not cut."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineRange:
    """Consecutive lines of a file.

    Args:
        file: the file.
        start, stop: bytes on the disk; of a compressed file, all of them.
        first: lines before it.
    """

    file: Path
    start: int
    stop: int
    first: int = 0

    @property
    def name(self) -> str:
        """What the range is called in messages."""
        return f"{self.file} from line {self.first + 1:,}" if self.first else str(self.file)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self.stop - self.start

    def read(self, advance: Advance) -> Iterator[str]:
        """Yield the lines. Only "\\n" ends a line; Python's text mode would also split at "\\r".

        Raises:
            HeedError: naming the file, and the line that is not UTF-8.
        """
        return chain.from_iterable(self._read(advance))

    def _read(self, advance: Advance) -> Iterator[list[str]]:
        number = self.first
        for content in self._whole_lines(advance):
            if number == 0:
                content = content.removeprefix(BYTE_ORDER_MARK)
            lines = _decode(content, self.file, number).split("\n")
            if not lines[-1]:  # after the last line end
                lines.pop()
            number += len(lines)
            yield lines

    def _whole_lines(self, advance: Advance) -> Iterator[bytes]:
        rest: list[bytes] = []
        for chunk in read_bytes(self.file, advance, self.start, self.stop):
            if end := chunk.rfind(b"\n") + 1:
                yield b"".join([*rest, chunk[:end]])
                rest = []
            rest.append(chunk[end:])
        yield b"".join(rest)


def whole_file(file: Path) -> LineRange:
    """Return all lines of a file.

    Raises:
        HeedError: see `find_compression`.
    """
    find_compression(file)
    return LineRange(file, 0, file.stat().st_size)


def cut_files(*files: Path) -> list[tuple[LineRange, ...]]:
    """Cut files at the same lines into ranges of ``PART`` lines. Small and compressed files are one range each.

    Raises:
        HeedError: if the files have different numbers of lines and are cut; otherwise the reader finds out.
    """
    whole = tuple(map(whole_file, files))
    if sum(lines.size for lines in whole) <= SCANNED or any(map(find_compression, files)):
        return [whole]
    scanned = [_find_lines(file) for file in files]
    if len({lines for _, lines in scanned}) > 1:
        src_lines, tgt_lines = (lines for _, lines in scanned)
        raise different_lengths(files[0], src_lines, files[1], tgt_lines)
    ranges = (
        [LineRange(file, *ends, number * PART) for number, ends in enumerate(pairwise(offsets))]
        for file, (offsets, _) in zip(files, scanned, strict=True)
    )
    return list(zip(*ranges, strict=True))


def _find_lines(file: Path) -> tuple[list[int], int]:
    """Return the bytes between which there are ``PART`` lines or, at the end, fewer; and the number of all lines."""
    offsets, lines, position, last = [0], 0, 0, b"\n"
    with (
        file.open("rb") as stream,
        progress_bar(f"Counting the lines of {file.name:.60}", total=file.stat().st_size, unit="B") as bar,
    ):
        while block := stream.read(SCANNED):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + position + 1
            offsets += ends[PART - 1 - lines % PART :: PART].tolist()
            lines, position, last = lines + len(ends), position + len(block), block[-1:]
            bar.update(len(block))
    if offsets[-1] < position or not position:
        offsets.append(position)
    return offsets, lines + (last != b"\n")


def different_lengths(src: Path, src_lines: int, tgt: Path, tgt_lines: int) -> HeedError:
    """Return the error for two files that are not parallel."""
    return HeedError(
        f"{src} has {src_lines:,} lines and {tgt} {tgt_lines:,}: "
        "line n of one file must be the translation of line n of the other."
    )


def _decode(content: bytes, file: Path, first: int) -> str:
    """Return the text of some lines.

    Args:
        first: lines before them.

    Raises:
        HeedError: naming the line that is not UTF-8 text.
    """
    try:
        if b"\0" not in content:
            return content.decode()
    except UnicodeDecodeError:
        pass
    for number, line in enumerate(content.split(b"\n"), first + 1):
        if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line:
            raise HeedError(
                f"{file}, line {number:,}: not UTF-8 text, but UTF-16 or binary data (it has a UTF-16 byte order mark "
                f"or zero bytes). Convert UTF-16 with: iconv -f UTF-16 -t UTF-8 {shlex.quote(str(file))}"
            )
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise HeedError(
                f"{file}, line {number:,}: not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). Convert it "
                f"first, for instance: iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(str(file))}"
            ) from error
    raise AssertionError("every line is UTF-8 text")
