"""Lines of text files, in ranges that processes read independently."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from heed.data.formats.compression import DAMAGED, find_compression, opened
from heed.data.text import BLOCK, Advance
from heed.errors import HeedError, first_line
from heed.progress import progress_bar

PART = 2**24
"""Bytes of the largest part of a file that is not compressed."""

SCANNED = 2**24
"""Bytes that are searched for line ends at a time."""


@dataclass(frozen=True)
class LineRange:
    """Consecutive lines of a file.

    Args:
        file: the file.
        start, stop: bytes. stop None: the end; the whole file if it is compressed.
        first: lines before it.
    """

    file: Path
    start: int = 0
    stop: int | None = None
    first: int = 0

    @property
    def name(self) -> str:
        """What the range is called in messages."""
        return f"{self.file} from line {self.first + 1:,}" if self.start else str(self.file)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return (self.file.stat().st_size if self.stop is None else self.stop) - self.start

    def read(self, advance: Advance) -> Iterator[list[str]]:
        """Yield ``BLOCK`` lines at a time. Only "\\n" ends a line; Python's text mode would also split at "\\r".

        Raises:
            HeedError: naming the file, and the line that is not UTF-8.
        """
        number = self.first
        with opened(self.file) as (content, disk):
            if self.start:
                content.seek(self.start)
            position = self.start
            lines = content if self.stop is None else _until(content, self.stop - self.start)
            while raw := _take(lines, self.file):
                decoded = []
                for line in raw:
                    number += 1
                    try:
                        decoded.append(_decode(line, self.file, first=number == 1))
                    except ValueError as error:
                        raise HeedError(f"{self.file}, line {number:,}: {error}") from error
                read = disk.tell() if content is not disk else position + sum(map(len, raw))
                advance(read - position)
                position = read
                yield decoded


def cut_file(file: Path) -> list[LineRange]:
    """Cut a file into ranges of about ``PART`` bytes; a compressed file is one range."""
    if find_compression(file) is not None or file.stat().st_size <= PART:
        return [LineRange(file)]
    with progress_bar(f"Looking for line ends in {file.name:.60}", total=file.stat().st_size, unit="B") as bar:
        cuts, _ = _find_cuts(file, PART, bar.update)
    return _ranges(file, cuts)


def cut_files(src: Path, tgt: Path) -> list[tuple[LineRange, LineRange]]:
    """Cut two files at the same lines into ranges of about ``PART`` bytes together.

    Raises:
        HeedError: if the files have different numbers of lines and are large; of small files, the reader finds out.
    """
    sizes = [file.stat().st_size for file in (src, tgt)]
    is_compressed = any(find_compression(file) is not None for file in (src, tgt))
    if is_compressed or sum(sizes) <= PART:
        return [(LineRange(src), LineRange(tgt))]
    with progress_bar(f"Counting the lines of {src.name:.30} and {tgt.name:.30}", total=sum(sizes), unit="B") as bar:
        cuts, src_lines = _find_cuts(src, max(1, PART * sizes[0] // sum(sizes)), bar.update)
        offsets, tgt_lines = _find_lines(tgt, [line for _, line in cuts], bar.update)
    if src_lines != tgt_lines:
        raise different_lengths(src, src_lines, tgt, tgt_lines)
    tgt_cuts = [(offset, line) for offset, (_, line) in zip(offsets, cuts, strict=True)]
    return list(zip(_ranges(src, cuts), _ranges(tgt, tgt_cuts), strict=True))


def different_lengths(src: Path, src_lines: int, tgt: Path, tgt_lines: int) -> HeedError:
    """Return the error for two files that are not parallel."""
    return HeedError(
        f"{src} has {src_lines:,} lines and {tgt} {tgt_lines:,}: "
        "line n of one file must be the translation of line n of the other."
    )


Cut = tuple[int, int]
"""A place between two lines: the bytes and the lines before it."""


def _ranges(file: Path, cuts: Sequence[Cut]) -> list[LineRange]:
    ends: list[Cut] = [(0, 0), *cuts, (file.stat().st_size, 0)]
    return [LineRange(file, start, stop, first) for (start, first), (stop, _) in pairwise(ends)]


def _line_ends(file: Path, advance: Advance) -> Iterator[np.ndarray]:
    """Yield the positions after the line ends of a file, block by block."""
    with file.open("rb") as stream:
        position = 0
        while block := stream.read(SCANNED):
            yield np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + position + 1
            position += len(block)
            advance(len(block))


def _find_cuts(file: Path, size: int, advance: Advance) -> tuple[list[Cut], int]:
    """Return cuts about every ``size`` ≥ 1 bytes, and the number of lines."""
    cuts: list[Cut] = []
    lines, end, length = 0, 0, file.stat().st_size
    for ends in _line_ends(file, advance):
        while True:
            index = int(np.searchsorted(ends, (cuts[-1][0] if cuts else 0) + size))
            if index == len(ends) or ends[index] >= length:
                break
            cuts.append((int(ends[index]), lines + index + 1))
        lines += len(ends)
        end = int(ends[-1]) if len(ends) else end
    return cuts, lines + (end < length)


def _find_lines(file: Path, numbers: Sequence[int], advance: Advance) -> tuple[list[int], int]:
    """Return the bytes before which there are these numbers of lines, and the number of all lines."""
    offsets: list[int] = []
    lines, end = 0, 0
    for ends in _line_ends(file, advance):
        while len(offsets) < len(numbers) and numbers[len(offsets)] <= lines + len(ends):
            offsets.append(int(ends[numbers[len(offsets)] - lines - 1]))
        lines += len(ends)
        end = int(ends[-1]) if len(ends) else end
    length = file.stat().st_size
    return offsets + [length] * (len(numbers) - len(offsets)), lines + (end < length)


def _until(lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield lines until they have ``size`` bytes."""
    for line in lines:
        yield line
        size -= len(line)
        if size <= 0:
            return


def _take(lines: Iterable[bytes], file: Path) -> list[bytes]:
    try:
        return list(islice(lines, BLOCK))
    except DAMAGED as error:
        raise HeedError(f"{file} cannot be read: {first_line(error)}") from error


def _decode(line: bytes, file: Path, *, first: bool) -> str:
    """Return the text of a line without its line end.

    Args:
        first: whether it is the first line, which may start with a byte order mark.

    Raises:
        ValueError: with a message for users, if the line is not UTF-8 text.
    """
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line:
        raise ValueError(
            "not UTF-8 text, but UTF-16 or binary data (it has a UTF-16 byte order mark or zero bytes). Convert UTF-16 "
            f"with: iconv -f UTF-16 -t UTF-8 {shlex.quote(str(file))}"
        )
    try:
        return line.decode("utf-8-sig" if first else "utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). "
            f"Convert it first, for instance: iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(str(file))}"
        ) from error


def one_line(text: str) -> str:
    """Return the text without a line end, and with a space for every line break inside."""
    return text.rstrip("\r\n").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
