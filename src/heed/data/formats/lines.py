"""Read the lines of text files."""

import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from heed.data.formats.files import read_bytes
from heed.data.text import Advance
from heed.errors import HeedError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(file: Path, advance: Advance) -> Iterator[str]:
    """Yield the lines of a file. Only "\\n" ends a line; Python's text mode would also split at "\\r".

    Raises:
        HeedError: naming the line that is not UTF-8.
    """
    return chain.from_iterable(_read(file, advance))


def _read(file: Path, advance: Advance) -> Iterator[list[str]]:
    number = 0
    for content in _whole_lines(file, advance):
        if number == 0:
            content = content.removeprefix(BYTE_ORDER_MARK)
        lines = _decode(content, file, number).split("\n")
        if not lines[-1]:  # after the last line end
            lines.pop()
        number += len(lines)
        yield lines


def _whole_lines(file: Path, advance: Advance) -> Iterator[bytes]:
    rest: list[bytes] = []
    for chunk in read_bytes(file, advance):
        if end := chunk.rfind(b"\n") + 1:
            yield b"".join([*rest, chunk[:end]])
            rest = []
        rest.append(chunk[end:])
    yield b"".join(rest)


def _decode(content: bytes, file: Path, first: int) -> str:
    """Decode lines that follow the first ``first`` lines of a file; raise a HeedError unless they are UTF-8 text."""
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
