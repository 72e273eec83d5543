"""Unusual files: which ones are read, and which ones are refused with a message that names the file and the line."""

import bz2
import gzip
import json
import lzma
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heed.data.text.files_corpus import name_test_sets
from heed.data.text.formats.entries import find_sources, parse_entries
from heed.data.text.formats.sources import Fields
from heed.data.text.source import Sentences
from heed.errors import HeedError
from tests.data.texts import ENGLISH, GERMAN, files_error, load_files, sentence_pairs, write_corpus

zstd = partial(pa.compress, codec="zstd", asbytes=True)
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
"""A zstd frame without content: https://www.rfc-editor.org/rfc/rfc8878#name-skippable-frames."""
PAIR = b'{"src": "a b", "tgt": "c d"}\n'
RANDOM = os.urandom(99).hex().encode()
DEEP = 200_000
JSONL = {"train": "[{}/t.jsonl]"}
PARQUET = {"train": "[{}/t.parquet]"}


def content(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def table(**columns: object) -> Callable[[Path], object]:
    return lambda folder: pq.write_table(pa.table(columns), folder / "t.parquet")


def damaged_parquet(start: int, stop: int | None) -> Callable[[Path], object]:
    """Return a function that writes a parquet file of 5,000 pairs with these bytes replaced by random ones."""

    def make(folder: Path) -> None:
        file = folder / "t.parquet"
        numbers = range(5000)
        pq.write_table(pa.table({"src": [f"dog {n}" for n in numbers], "tgt": [f"Hund {n}" for n in numbers]}), file)
        whole = bytearray(file.read_bytes())
        whole[start:stop] = random.Random(1).randbytes(len(whole[start:stop]))
        file.write_bytes(whole)

    return make


def damaged(compressed: bytes) -> bytes:
    """Return a compressed file with a wrong byte in its header."""
    return compressed[:6] + bytes([compressed[6] ^ 255]) + compressed[7:]


def not_utf8() -> pa.Array:
    """Build an Arrow column of invalid UTF-8, which Arrow does not check."""
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xffb")])


def source(name: str) -> dict[str, str]:
    return {"train": f"[[{{}}/{name},{{}}/train.de]]"}


REFUSED: list[tuple[str, Callable[[Path], object], dict[str, str], list[str]]] = [
    # Numbers of lines.
    ("fewer lines", content("train.de", b"only\ntwo\n"), {}, ["train.en has 4 lines", "train.de 2"]),
    ("empty side", content("val.en", b""), {}, ["val.en has 0 lines"]),
    ("empty lines alone", content("train.de", b"\n \n\xc2\xa0\n\n"), {}, ["nothing to train on", "empty"]),
    # Not files.
    ("missing", content("x.en", b""), {"train": "[[{}/x.en,{}/none.de]]"}, ["none.de does not exist"]),
    ("folder", lambda f: (f / "d.en").mkdir(), source("d.en"), ["d.en is a folder"]),
    ("named pipe", lambda f: os.mkfifo(f / "d.en"), source("d.en"), ["d.en is a named pipe"]),
    ("endless device", lambda f: (f / "d.en").symlink_to("/dev/zero"), source("d.en"), ["d.en is a", "device"]),
    ("JSONL pipe", lambda f: os.mkfifo(f / "t.jsonl"), JSONL, ["t.jsonl is a named pipe"]),
    ("parquet folder", lambda f: (f / "t.parquet").mkdir(), PARQUET, ["t.parquet is a folder"]),
    ("link loop", lambda f: (f / "d.en").symlink_to("d.en"), source("d.en"), ["d.en cannot be read", "links"]),
    ("broken link", lambda f: (f / "d.en").symlink_to("nowhere"), source("d.en"), ["d.en does not exist"]),
    ("below a file", lambda f: None, source("train.en/x.en"), ["x.en does not exist"]),
    ("name too long", lambda f: None, source("a" * 300), ["aaa cannot be read: File name too long"]),
    ("table's name too long", lambda f: None, {"train": f"[{'a' * 300}.tsv]"}, ["aaa.tsv cannot be read"]),
    ("lone name too long", lambda f: None, {"train": f"[{'a' * 300}]"}, ["aaa has no second file"]),
    ("pattern too long", lambda f: None, {"train": f"[{'a' * 300}*.tsv]"}, ["cannot be read: File name too long"]),
    # Compressed in some way.
    ("zstd cut", content("a.en", zstd(RANDOM)[:-9]), source("a.en"), ["a.en cannot", "Truncated"]),
    ("zstd damaged", content("a.en", zstd(b"a")[:6] + b"rest"), source("a.en"), ["a.en cannot be read"]),
    ("bzip2 cut", content("a.en", bz2.compress(RANDOM)[:-9]), source("a.en"), ["a.en cannot be read", "Truncated"]),
    ("bzip2 in two parts", content("a.en", bz2.compress(b"a\n") + damaged(bz2.compress(b"b\n"))), source("a.en"),
     ["a.en cannot be read"]),
    ("bzip2 and more", content("a.en", bz2.compress(b"a\n") + b"more"), source("a.en"), ["a.en cannot be read"]),
    ("xz", content("a.en", lzma.compress(b"a\n")), source("a.en"), ["unsupported", "xz -d"]),
    ("zip", content("a.en", b"PK\x03\x04rest"), source("a.en"), ["unsupported", "unzip"]),
    ("gzip cut", content("a.en.gz", gzip.compress(RANDOM)[:-9]), source("a.en.gz"), ["a.en.gz cannot be read"]),
    ("gzip and more", content("a.en.gz", gzip.compress(b"a\n") + b"more"), source("a.en.gz"), ["cannot be read"]),
    ("gzip checksum", content("a.en.gz", gzip.compress(b"a\n")[:-8] + b"12345678"), source("a.en.gz"), ["data check"]),
    ("parquet gzip", content("t.parquet", gzip.compress(b"a")), PARQUET, ["t.parquet cannot be read as parquet"]),
    # Text that is not UTF-8, or not one sentence per line.
    ("Latin-1", content("train.de", b"a\nb\nc\nd\xe4\n"), {}, ["train.de, line 4", "UTF-8", "0xe4"]),
    ("UTF-16", content("a.en", "a ü\n".encode("utf-16")), source("a.en"), ["a.en, line 1", "iconv -f UTF-16"]),
    ("UTF-16 without mark", content("a.en", "a ü\n".encode("utf-16-le")), source("a.en"), ["line 1", "UTF-16"]),
    ("zero byte", content("a.en", b"a\nb\0c\n"), source("a.en"), ["a.en, line 2", "zero bytes"]),
    ("surrogate", content("a.en", b"a\n\xed\xa0\x80\n"), source("a.en"), ["a.en, line 2", "not UTF-8", "0xed"]),
    ("one file twice", content("a.tsv", b"a\tb\n"), {"train": "[[{}/a.tsv,{}/a.tsv]]"}, ["not a pair", "alone"]),
    ("one file under two paths", content("x.en", b"a\n"), {"train": "[[{}/x.en,{}/./x.en]]"},
     ["x.en is given for both sides", "table.tsv"]),
    ("one file under two names", lambda f: (f / "a.de").hardlink_to(f / "train.en"),
     {"train": "[[{}/train.en,{}/a.de]]"}, ["train.en is given for both sides"]),
    ("lone carriage returns", content("a.en", b"a\r" * 4), source("a.en"), ["a.en has 1 lines"]),
    ("byte order marks alone", content("a.en", b"\xef\xbb\xbf\n" * 4), source("a.en"), ["nothing to train on"]),
    # JSONL.
    ("no field", content("t.jsonl", PAIR + b'{"src": "a"}\n'), JSONL, ["line 2", "'tgt'", "src"]),
    ("cut object", content("t.jsonl", PAIR + b'{"src"\n'), JSONL, ["line 2", "delimiter"]),
    ("JSON null", content("t.jsonl", b'\n{"src": "a", "tgt": null}\n'), JSONL, ["line 2", "None", "not text"]),
    ("lone surrogate", content("t.jsonl", b'{"src": "a", "tgt": "\\ud800"}\n'), JSONL, ["line 1", "surrogate"]),
    ("array per line", content("t.jsonl", b'["a", "b"]\n'), JSONL, ["line 1", "no field 'src'"]),
    ("deep list", content("t.jsonl", PAIR + b"[" * DEEP + b"]" * DEEP), JSONL, ["t.jsonl, line 2", "nested"]),
    ("deep object", content("t.jsonl", PAIR + b'{"src":' * DEEP + b"1" + b"}" * DEEP), JSONL, ["line 2", "nested"]),
    ("no field far behind", content("t.jsonl", PAIR * 99_999 + b'{"src": "a"}\n'), JSONL, ["line 100,000", "'tgt'"]),
    ("number", content("t.jsonl", PAIR + b'{"src": 1, "tgt": "a"}\n'), JSONL, ["line 2", "is not text: 1"]),
    ("array", content("t.jsonl", b"[\n" + PAIR), JSONL, ["t.jsonl cannot be read as JSON: Expecting"]),
    ("many fields", content("t.jsonl", json.dumps(dict.fromkeys(map(str, range(99_999)))).encode()), JSONL,
     ["line 1", "no field 'src' (found: 0, 1, 2"]),
    # Parquet.
    ("no parquet", content("t.parquet", b"no parquet"), PARQUET, ["t.parquet", "arquet"]),
    ("no parquet rows", table(src=pa.array([], pa.string()), tgt=pa.array([], pa.string())), PARQUET, ["no sentences"]),
    ("null", table(src=["a", None], tgt=["b", "c"]), PARQUET, ["t.parquet, row 2", "None"]),
    ("integers", table(src=[1, 2], tgt=["b", "c"]), PARQUET, ["t.parquet, row 1", "not text"]),
    ("bytes", table(src=[b"a"], tgt=["b"]), PARQUET, ["t.parquet, row 1", "not text"]),
    ("lists", table(src=[["a"]], tgt=["b"]), PARQUET, ["t.parquet, row 1", "not text"]),
    ("no rows at all", lambda f: pq.ParquetWriter(f / "t.parquet", pa.schema([("src", pa.string())])).close(), PARQUET,
     ["t.parquet: no sentences"]),
    ("no UTF-8 inside", table(src=not_utf8(), tgt=["b", "c"]), PARQUET, ["t.parquet cannot be read", "utf-8"]),
    ("footer", damaged_parquet(-60, -8), PARQUET, ["t.parquet cannot be read as parquet"]),
    ("last bytes", damaged_parquet(-8, None), PARQUET, ["t.parquet cannot be read as parquet"]),
    ("page header", damaged_parquet(4, 44), PARQUET, ["t.parquet cannot be read as parquet"]),
    ("page", damaged_parquet(20_000, 22_000), PARQUET, ["t.parquet cannot be read as parquet"]),
    # The command line.
    ("lone text file", lambda f: None, {"train": "[{}/x.txt]"}, ["x.txt has no second file", ".jsonl"]),
    ("pair without brackets", lambda f: None, {"train": "[{}/x.txt,{}/x.txt]"}, ["x.txt has no second file"]),
    ("three files", lambda f: None, {"train": "[[{}/x.txt,{}/x.txt,{}/x.txt]]"}, ["not a pair"]),
    ("text and JSONL", lambda f: None, {"train": "[[{}/x.txt,{}/x.jsonl]]"}, ["not a pair"]),
    ("no list", lambda f: None, {"train": "{}/x.txt"}, ["data.train=", "must be a list"]),
    ("empty list", lambda f: None, {"train": "[]"}, ["must be a list of pairs"]),
    ("test set called valid", lambda f: None, {"test": "{valid: [[{}/x.en,{}/x.de]]}"}, ["cannot be called valid"]),
    ("null entry", lambda f: None, {"train": "[null]"}, ["data.train", "must be a list"]),
    ("empty entry", lambda f: None, {"train": "[[]]"}, ["data.train", "not a pair"]),
    ("empty name", lambda f: None, {"train": "[['','']]"}, ["data.train", "not a pair"]),
    ("nobody's home", lambda f: None, {"train": "[['~nobody at all/a','b']]"}, ["data.train", "home"]),
    ("test set with a bar", lambda f: None, {"test": "{a|b: [[{}/test.en,{}/test.de]]}"}, ["'a|b' cannot name"]),
    ("test set with a long name", lambda f: None, {"test": f"{{{'a' * 201}: [[{{}}/test.en,{{}}/test.de]]}}"},
     ["at most 200 bytes"]),
    ("test set as a path", lambda f: None, {"test": "{a/b: [[{}/test.en,{}/test.de]]}"}, ["'a/b' cannot name"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "changes", "parts"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_refused_file_is_named(
    folder: Path, make: Callable[[Path], object], changes: dict[str, str], parts: list[str]
) -> None:
    make(folder)
    message = files_error(folder, changes)
    assert all(part in message for part in parts), message
    assert len(message) < 1000
    assert not list(folder.rglob("cache/**/*.partial"))


@pytest.fixture(scope="module")
def parquet_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("parquet") / "t.parquet"
    numbers = range(5000)
    pq.write_table(pa.table({"src": [f"dog {n}" for n in numbers], "tgt": [f"Hund {n}" for n in numbers]}), file)
    return file.read_bytes()


@pytest.mark.parametrize("seed", range(60))
def test_randomly_damaged_parquet_is_read_or_refused(seed: int, folder: Path, parquet_bytes: bytes) -> None:
    """Neither a crash of the reader nor an error of another class, for damage anywhere and in the footer."""
    rng = random.Random(seed)
    damaged = bytearray(parquet_bytes)
    for _ in range(rng.choice((1, 1, 20))):
        position = rng.randrange(len(damaged)) if rng.random() < 0.5 else -rng.randrange(1, 900)
        damaged[position] = rng.randrange(256)
    (folder / "t.parquet").write_bytes(damaged)
    try:
        corpus = load_files(folder, **PARQUET)
    except HeedError as error:
        assert "t.parquet" in str(error)  # noqa: PT017
    else:
        assert len(corpus.train)


READ: list[tuple[str, Callable[[Path], object], dict[str, str], list[str]]] = [
    ("line separators of Unicode", content("a.en", "a\u2028b\n\x85c\nd\x0c\n\x0be\n".encode()), source("a.en"),
     ["a\u2028b", "\x85c", "d\x0c", "\x0be"]),
    ("mixed normal forms", content("a.en", "u\u0308\nü\na\nb\n".encode()), source("a.en"), ["u\u0308", "ü", "a", "b"]),
    ("tabs inside text", content("a.en", b"a\tb\nc\nd\ne\n"), source("a.en"), ["a\tb", "c", "d", "e"]),
    ("gzip without suffix", content("a.en", gzip.compress(b"a\nb\nc\nd\n")), source("a.en"), ["a", "b", "c", "d"]),
    ("suffix without gzip", content("a.en.gz", b"a\nb\nc\nd\n"), source("a.en.gz"), ["a", "b", "c", "d"]),
    ("lz4", content("a.en", pa.compress(b"a\nb\nc\nd\n", "lz4", asbytes=True)), source("a.en"), ["a", "b", "c", "d"]),
    ("bzip2", content("a.en", bz2.compress(b"a\nb\nc\nd\n")), source("a.en"), ["a", "b", "c", "d"]),
    ("zstd after a skipped frame", content("a.en", SKIPPED + zstd(b"a\nb\n") + SKIPPED +
     zstd(b"c\nd\n")), source("a.en"), ["a", "b", "c", "d"]),
    ("bzip2 in two parts", content("a.en", bz2.compress(b"a\nb") + bz2.compress(b"c\nd\ne\n")), source("a.en"),
     ["a", "bc", "d", "e"]),
    ("zstd in two frames", content("a.en", zstd(b"a\nb\n") + zstd(b"c\nd\n")),
     source("a.en"), ["a", "b", "c", "d"]),
    ("gzip in two parts", content("a.en.gz", gzip.compress(b"a\nb") + gzip.compress(b"c\nd\ne\n")), source("a.en.gz"),
     ["a", "bc", "d", "e"]),
    ("one character a line", content("a.en", b"a\nb\nc\nd\n"), source("a.en"), ["a", "b", "c", "d"]),
    ("a long name", content("a" * 240 + ".en", b"a\nb\nc\nd\n"), source("a" * 240 + ".en"), ["a", "b", "c", "d"]),
    ("a dictionary column", table(src=pa.array(["a", "b"]).dictionary_encode(), tgt=["c", "d"]), PARQUET, ["a", "b"]),
    ("a large column", table(src=pa.array(["a", "b"], pa.large_string()), tgt=["c", "d"]), PARQUET, ["a", "b"]),
    ("a year as a name", lambda f: None, {"test": "{2014: [[{}/test.en,{}/test.de]]}"}, ENGLISH),
]  # fmt: skip


@pytest.mark.parametrize(("make", "changes", "sources"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_an_unusual_file_is_read(
    folder: Path, make: Callable[[Path], object], changes: dict[str, str], sources: list[str]
) -> None:
    make(folder)
    # Cleaning would drop some pairs, whose lengths differ.
    corpus = load_files(folder, **changes, **{"cleaning.max_ratio": "null"})
    assert [src for src, _ in sentence_pairs(corpus.train)] == sources


def test_a_file_name_that_is_not_utf8_is_read(folder: Path) -> None:
    odd = os.fsdecode(os.fsencode(folder) + b"/caf\xe9.")
    for suffix, lines in (("en", ENGLISH), ("de", GERMAN)):
        Path(odd + suffix).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    entries = parse_entries("test", [[odd + "en", odd + "de"], [odd + "de", odd + "en"]])
    fields = Fields("src", "tgt")
    read = Sentences.read(find_sources(entries[0], fields))
    assert sentence_pairs(read) == list(zip(ENGLISH, GERMAN, strict=True))
    for name in name_test_sets(entries):
        assert name.encode().startswith(b"caf_"), "results are written as UTF-8"
    assert {*name_test_sets([(f"{'新' * 80}.en",), ('a:"b".en',)])} == {"新" * 33, "a__b_"}
    pq.write_table(pa.table({"src": ["a"], "tgt": ["b"]}), folder / "t.parquet")
    (folder / "t.parquet").rename(odd + "parquet")
    assert sentence_pairs(Sentences.read(find_sources((odd + "parquet",), fields))) == [("a", "b")]


def test_a_line_of_ten_megabytes_is_dropped(folder: Path) -> None:
    (folder / "train.en").write_bytes(b"word" * 2_500_000 + b"\n" + b"".join(f"{t}\n".encode() for t in ENGLISH[1:]))
    corpus = load_files(folder)
    assert corpus.train.texts[0].clean.report.dropped["too long"] == 1
    assert len(corpus.train) == 3


@contextmanager
def without_privileges() -> Iterator[None]:
    """Run the block as the user nobody if the tests run as root, who may read and write everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_and_caches_without_permission() -> None:
    with tempfile.TemporaryDirectory() as name:  # other users cannot read pytest's temporary folder
        folder = Path(name)
        folder.chmod(0o755)
        write_corpus(folder)
        load_files(folder, cache_dir="{}/intact")
        for path in (folder / "intact").rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        (folder / "closed").mkdir(mode=0o555)
        (folder / "private").mkdir(mode=0)
        (folder / "train.de").chmod(0)
        with without_privileges():
            assert "train.de cannot be read: Permission denied" in files_error(folder, {"cache_dir": "{}/intact"})
            for name in ("private/a.tsv", "private/*.tsv"):
                message = files_error(folder, {"train": f"[{{}}/{name}]", "cache_dir": "{}/intact"})
                assert f"{folder}/{name} cannot be read: Permission denied" in message
        (folder / "train.de").chmod(0o444)
        with without_privileges():
            message = files_error(folder, {"cache_dir": "{}/closed"})
            assert "closed" in message
            assert "Permission denied" in message
            assert "cache_dir=DIR" in message
            assert len(load_files(folder, cache_dir="{}/intact").train) == 4, (
                "reading a cache entry needs no permission to write"
            )
