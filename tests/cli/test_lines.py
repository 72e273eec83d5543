"""Reading lines: line ends, encodings, compressed and binary files; and comparing the lengths of files."""

import io
import os
from pathlib import Path
from threading import Thread

import pytest

from heed.cli.lines import PipeReader, path_text, read_lines, read_parallel
from heed.errors import HeedError
from heed.inference.lines import blocks


def test_lines_end_at_newlines_only() -> None:
    text = "\ufeffone\u2028still one\r\ntwo\x0bstill two\n\nfour"
    assert list(read_lines(io.BytesIO(text.encode()), "x")) == ["one\u2028still one", "two\x0bstill two", "", "four"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"one\nab\xff", "Line 2 of x is not UTF-8 (invalid start byte at byte 3)"),
        (b"\x28\xb5\x2f\xfd rest", "decompress the text or convert it"),
        (b"\x1f\x8b\x08 rest", "decompress the text"),
        ("Hund".encode("utf-16"), "is UTF-16"),
        (b"a dog\n" + b"a" * 10_000_000, "Line 2 of x is longer than 100,000 bytes"),
    ],
)
def test_files_that_are_not_text_are_recognised(text: bytes, message: str) -> None:
    with pytest.raises(HeedError) as caught:
        list(read_lines(io.BytesIO(text), "x"))
    assert message in str(caught.value)


def test_a_pipe_is_read_in_blocks_of_what_has_come() -> None:
    """An incomplete line belongs to the next block."""
    descriptor, writer = os.pipe()
    with os.fdopen(descriptor, "rb") as stream:
        pipe = PipeReader.of(stream)
        assert pipe is not None
        found = blocks(read_lines(pipe, "x"), 4, pipe.is_ready)
        os.write(writer, b"a\nb\r\n\nc")
        assert next(found) == ["a", "b", ""]
        assert not pipe.is_ready()
        os.write(writer, b"c\n" + b"d\n" * 5 + b"e" * 50_000)
        assert [next(found), next(found)] == [["cc", "d", "d", "d"], ["d", "d"]]
        os.write(writer, b"e" * 50_000 + b"\nlast")
        os.close(writer)
        assert list(found) == [["e" * 100_000, "last"]]


def test_files_are_no_pipes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (tmp_path / "file").open("rb") as file:
        assert PipeReader.of(file) is None
    assert PipeReader.of(io.BytesIO()) is None


def test_a_line_of_a_pipe_that_is_too_long_is_refused_before_it_ends() -> None:
    descriptor, writer = os.pipe()
    with os.fdopen(descriptor, "rb") as stream, os.fdopen(writer, "wb") as out:
        thread = Thread(target=lambda: (out.write(b"a" * 200_000), out.flush()))
        thread.start()
        with pytest.raises(HeedError, match="Line 1 of x is longer than 100,000 bytes"):
            next(read_lines(PipeReader(descriptor), "x"))
        stream.read1()
        thread.join()


def test_files_of_different_length_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    for file, text in zip(files, ("x\ny\n", "x\ny", "x\n"), strict=True):
        file.write_text(text)
    assert read_parallel(*files[:2]) == [["x", "y"]] * 2
    with pytest.raises(HeedError, match=r"a has 2 lines and .*c 1"):
        read_parallel(*files)


def test_paths_that_are_not_utf8_are_written_with_replacement_characters() -> None:
    assert path_text(Path("caf\udce9")) == "caf\ufffd"
