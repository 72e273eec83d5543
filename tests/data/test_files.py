"""Files that users have by accident are read rightly, or refused in a sentence that names the file and the line."""

import bz2
import gzip
import json
import lzma
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hydra.errors import InstantiationException

from heed.errors import HeedError
from tests.data.test_corpus import ENGLISH, GERMAN, files, texts, write

ZSTD = b"\x28\xb5\x2f\xfd\x04\x00"
PAIR = b'{"src": "a b", "tgt": "c d"}\n'
DEEP = 200_000
JSONL = {"train": "[{}/t.jsonl]"}
PARQUET = {"train": "[{}/t.parquet]"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, train_en=ENGLISH, train_de=GERMAN)
    write(tmp_path, val_en=["Held out."], val_de=["Zurückgehalten."], test_en=["The last."], test_de=["Das Letzte."])
    return tmp_path


def content(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def table(**columns: object) -> Callable[[Path], object]:
    return lambda folder: pq.write_table(pa.table(columns), folder / "t.parquet")


def damaged_parquet(start: int, stop: int | None) -> Callable[[Path], object]:
    """Random bytes in the place of these; row groups, pages and the footer of 5,000 pairs."""

    def make(folder: Path) -> None:
        file = folder / "t.parquet"
        numbers = range(5000)
        pq.write_table(pa.table({"src": [f"dog {n}" for n in numbers], "tgt": [f"Hund {n}" for n in numbers]}), file)
        whole = bytearray(file.read_bytes())
        whole[start:stop] = random.Random(1).randbytes(len(whole[start:stop]))
        file.write_bytes(whole)

    return make


def not_utf8() -> pa.Array:
    """Arrow does not look at what it is given."""
    offsets = pa.array([0, 1, 2], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xffb")])


def source(name: str) -> dict[str, str]:
    return {"train": f"[[{{}}/{name},{{}}/train.de]]"}


REFUSED: list[tuple[str, Callable[[Path], object], dict[str, str], list[str]]] = [
    # Not files.
    ("folder", lambda f: (f / "d.en").mkdir(), source("d.en"), ["d.en is a folder"]),
    ("named pipe", lambda f: os.mkfifo(f / "d.en"), source("d.en"), ["d.en is a named pipe"]),
    ("endless device", lambda f: (f / "d.en").symlink_to("/dev/zero"), source("d.en"), ["d.en is a", "device"]),
    ("JSONL pipe", lambda f: os.mkfifo(f / "t.jsonl"), JSONL, ["t.jsonl is a named pipe"]),
    ("parquet folder", lambda f: (f / "t.parquet").mkdir(), PARQUET, ["t.parquet is a folder"]),
    ("link loop", lambda f: (f / "d.en").symlink_to("d.en"), source("d.en"), ["d.en cannot be read", "links"]),
    ("broken link", lambda f: (f / "d.en").symlink_to("nowhere"), source("d.en"), ["d.en does not exist"]),
    ("below a file", lambda f: None, source("train.en/x.en"), ["x.en does not exist"]),
    ("name too long", lambda f: None, source("a" * 300), ["aaa cannot be read: File name too long"]),
    # Compressed in some way.
    ("zstd", content("a.en.zst", ZSTD), source("a.en.zst"), ["compressed with zstd", "zstd -d"]),
    ("zstd JSONL", content("t.jsonl.zst", ZSTD), {"train": "[{}/t.jsonl.zst]"}, ["compressed with zstd", "zstd -d"]),
    ("xz", content("a.en", lzma.compress(b"a\n")), source("a.en"), ["a.en is compressed with xz", "xz -d"]),
    ("bzip2", content("a.en", bz2.compress(b"a\n")), source("a.en"), ["compressed with bzip2", "bzip2 -d"]),
    ("empty bzip2", content("a.en", bz2.compress(b"")), source("a.en"), ["compressed with bzip2"]),
    ("zip", content("a.en", b"PK\x03\x04rest"), source("a.en"), ["compressed with zip", "unzip"]),
    ("zstd as gzip", content("a.en.gz", ZSTD), source("a.en.gz"), ["compressed with zstd"]),
    ("gzip without suffix", content("a.en", gzip.compress(b"a\n")), source("a.en"), ["gzip", "rename it"]),
    ("suffix without gzip", content("a.en.gz", b"a\n"), source("a.en.gz"), ["a.en.gz is not compressed", "rename it"]),
    ("gzip cut", content("a.en.gz", gzip.compress(os.urandom(99))[:-9]), source("a.en.gz"), ["a.en.gz cannot be read"]),
    ("gzip and more", content("a.en.gz", gzip.compress(b"a\n") + b"more"), source("a.en.gz"), ["cannot be read"]),
    ("gzip checksum", content("a.en.gz", gzip.compress(b"a\n")[:-8] + b"12345678"), source("a.en.gz"), ["CRC"]),
    ("parquet gzip", content("t.parquet", gzip.compress(b"a")), PARQUET, ["compressed with gzip", "gunzip"]),
    # Text that is not UTF-8, or not one sentence a line.
    ("UTF-16", content("a.en", "a ü\n".encode("utf-16")), source("a.en"), ["a.en, line 1", "iconv -f UTF-16"]),
    ("UTF-16 without mark", content("a.en", "a ü\n".encode("utf-16-le")), source("a.en"), ["line 1", "UTF-16"]),
    ("zero byte", content("a.en", b"a\nb\0c\n"), source("a.en"), ["a.en, line 2", "zero bytes"]),
    ("surrogate", content("a.en", b"a\n\xed\xa0\x80\n"), source("a.en"), ["a.en, line 2", "not UTF-8", "0xed"]),
    ("one file twice", content("a.tsv", b"a\tb\n"), {"train": "[[{}/a.tsv,{}/a.tsv]]"}, ["both sides", "cut -f1"]),
    ("one file under two names", lambda f: (f / "a.de").hardlink_to(f / "train.en"),
     {"train": "[[{}/train.en,{}/a.de]]"}, ["train.en is given for both sides"]),
    ("columns", content("a.tsv", b"a\n" * 3 + b"b\tc\n"), source("a.tsv"), ["a.tsv, line 4", "tab", "cut -f1"]),
    ("lone TSV", content("a.tsv", b"a\tb\n"), {"train": "[{}/a.tsv]"}, ["a.tsv stands alone", "cut -f1"]),
    ("lone carriage returns", content("a.en", b"a\r" * 4), source("a.en"), ["a.en has 1 lines"]),
    ("byte order marks alone", content("a.en", b"\xef\xbb\xbf\n" * 4), source("a.en"), ["nothing to train on"]),
    # JSONL.
    ("deep list", content("t.jsonl", PAIR + b"[" * DEEP + b"]" * DEEP), JSONL, ["t.jsonl, line 2", "nested"]),
    ("deep object", content("t.jsonl", PAIR + b'{"src":' * DEEP + b"1" + b"}" * DEEP), JSONL, ["line 2", "nested"]),
    ("no field far behind", content("t.jsonl", PAIR * 99_999 + b'{"src": "a"}\n'), JSONL, ["line 100,000", "'tgt'"]),
    ("number", content("t.jsonl", PAIR + b'{"src": 1, "tgt": "a"}\n'), JSONL, ["line 2", "is 1, which is not text"]),
    ("array", content("t.jsonl", b"[\n" + PAIR + b"]\n"), JSONL, ["t.jsonl, line 1"]),
    ("many fields", content("t.jsonl", json.dumps(dict.fromkeys(map(str, range(99_999)))).encode()), JSONL,
     ["line 1", "no field 'src' (there is: 0, 1, 2"]),
    # Parquet.
    ("no parquet rows", table(src=pa.array([], pa.string()), tgt=pa.array([], pa.string())), PARQUET, ["no sentences"]),
    ("null", table(src=["a", None], tgt=["b", "c"]), PARQUET, ["t.parquet, row 2", "None"]),
    ("integers", table(src=[1, 2], tgt=["b", "c"]), PARQUET, ["t.parquet, row 1", "not text"]),
    ("bytes", table(src=[b"a"], tgt=["b"]), PARQUET, ["t.parquet, row 1", "not text"]),
    ("lists", table(src=[["a"]], tgt=["b"]), PARQUET, ["t.parquet, row 1", "not text"]),
    ("no UTF-8 inside", table(src=not_utf8(), tgt=["b", "c"]), PARQUET, ["t.parquet cannot be read", "utf-8"]),
    ("footer", damaged_parquet(-60, -8), PARQUET, ["t.parquet cannot be read as parquet"]),
    ("last bytes", damaged_parquet(-8, None), PARQUET, ["t.parquet cannot be read as parquet"]),
    ("page header", damaged_parquet(4, 44), PARQUET, ["t.parquet cannot be read as parquet"]),
    ("page", damaged_parquet(20_000, 22_000), PARQUET, ["t.parquet cannot be read as parquet"]),
    # The command line.
    ("null entry", lambda f: None, {"train": "[null]"}, ["data.train", "not a pair"]),
    ("empty entry", lambda f: None, {"train": "[[]]"}, ["data.train", "not a pair"]),
    ("empty name", lambda f: None, {"train": "[['','']]"}, ["data.train", "not a pair"]),
    ("nobody's home", lambda f: None, {"train": "[['~nobody at all/a','b']]"}, ["data.train", "home"]),
    ("test set as a path", lambda f: None, {"test": "{a/b: [[{}/test.en,{}/test.de]]}"}, ["'a/b' cannot name"]),
]  # fmt: skip


def complaint(folder: Path, changes: dict[str, str]) -> str:
    """The one sentence about a corpus that cannot be read, also where Hydra wraps what a constructor raises."""
    with pytest.raises((HeedError, InstantiationException)) as caught:
        files(folder, **changes)
    error = caught.value if isinstance(caught.value, HeedError) else caught.value.__cause__
    assert isinstance(error, HeedError), caught.value
    return str(error)


@pytest.mark.parametrize(("make", "changes", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_refused(
    folder: Path, make: Callable[[Path], object], changes: dict[str, str], says: list[str]
) -> None:
    make(folder)
    sentence = complaint(folder, changes)
    assert all(part in sentence for part in says), sentence
    assert len(sentence) < 1000
    assert not list(folder.rglob("cache/**/*.partial"))


def test_random_damage_to_parquet(folder: Path) -> None:
    """Any bytes of a parquet file may be wrong: it is read, or refused in a sentence that names it."""
    damaged_parquet(0, 0)(folder)
    whole = (folder / "t.parquet").read_bytes()
    rng = random.Random(3)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 20))):
            damaged[rng.randrange(len(whole)) if rng.random() < 0.5 else -rng.randrange(1, 900)] = rng.randrange(256)
        (folder / "t.parquet").write_bytes(damaged)
        try:
            files(folder, **PARQUET)
        except HeedError as error:
            refused += 1
            assert "t.parquet" in str(error)  # noqa: PT017
    assert refused > 20


READ: list[tuple[str, Callable[[Path], object], dict[str, str], list[str]]] = [
    ("line separators of Unicode", content("a.en", "a\u2028b\n\x85c\nd\x0c\n\x0be\n".encode()), source("a.en"),
     ["a\u2028b", "\x85c", "d\x0c", "\x0be"]),
    ("mixed normal forms", content("a.en", "u\u0308\nü\na\nb\n".encode()), source("a.en"), ["u\u0308", "ü", "a", "b"]),
    ("tabs inside text", content("a.en", b"a\tb\nc\nd\ne\n"), source("a.en"), ["a\tb", "c", "d", "e"]),
    ("gzip in two parts", content("a.en.gz", gzip.compress(b"a\nb") + gzip.compress(b"c\nd\ne\n")), source("a.en.gz"),
     ["a", "bc", "d", "e"]),
    ("gzip padded with zeros", content("a.en.gz", gzip.compress(b"a\nb\nc\nd\n") + bytes(9)), source("a.en.gz"),
     ["a", "b", "c", "d"]),
    ("one character a line", content("a.en", b"a\nb\nc\nd\n"), source("a.en"), ["a", "b", "c", "d"]),
    ("a long name", content("a" * 240 + ".en", b"a\nb\nc\nd\n"), source("a" * 240 + ".en"), ["a", "b", "c", "d"]),
    ("a dictionary column", table(src=pa.array(["a", "b"]).dictionary_encode(), tgt=["c", "d"]), PARQUET, ["a", "b"]),
    ("a large column", table(src=pa.array(["a", "b"], pa.large_string()), tgt=["c", "d"]), PARQUET, ["a", "b"]),
    ("a year as a name", lambda f: None, {"test": "{2014: [[{}/test.en,{}/test.de]]}"}, ENGLISH),
]  # fmt: skip


@pytest.mark.parametrize(("make", "changes", "sources"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_what_is_read_as_it_is(
    folder: Path, make: Callable[[Path], object], changes: dict[str, str], sources: list[str]
) -> None:
    make(folder)
    # Only the reading is tested: lengths of such short lines are not alike.
    corpus = files(folder, **changes, **{"cleaning.max_ratio": "null"})
    assert [src for src, _ in texts(corpus.train)] == sources


def test_a_file_name_that_is_not_utf8(folder: Path) -> None:
    from heed.data.files import file_entries, named_by_file, read_files

    odd = os.fsdecode(os.fsencode(folder) + b"/caf\xe9.")
    for suffix, lines in (("en", ENGLISH), ("de", GERMAN)):
        Path(odd + suffix).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    entries = file_entries("test", [[odd + "en", odd + "de"], [odd + "de", odd + "en"]])
    assert texts(read_files(entries[0], ("", ""), folder / "cache")) == list(zip(ENGLISH, GERMAN, strict=True))
    for name in named_by_file(entries):
        assert name.encode().startswith(b"caf_"), "results are written as UTF-8"
    pq.write_table(pa.table({"src": ["a"], "tgt": ["b"]}), folder / "t.parquet")
    (folder / "t.parquet").rename(odd + "parquet")
    assert texts(read_files((Path(odd + "parquet"),), ("src", "tgt"), folder / "cache")) == [("a", "b")]


def test_a_line_of_ten_megabytes_is_dropped_at_once(folder: Path) -> None:
    (folder / "train.en").write_bytes(b"word" * 2_500_000 + b"\n" + b"".join(f"{t}\n".encode() for t in ENGLISH[1:]))
    corpus = files(folder)
    assert corpus.cleaning.dropped["too long"] == 1
    assert len(corpus.train) == 3


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read and write everything: do this as nobody."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_and_a_cache_without_permission() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        folder = Path(name)
        folder.chmod(0o755)
        write(folder, train_en=ENGLISH, train_de=GERMAN, val_en=["a"], val_de=["b"], test_en=["c"], test_de=["d"])
        files(folder, cache_dir="{}/intact")
        for path in (folder / "intact").rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        (folder / "closed").mkdir(mode=0o555)
        (folder / "train.de").chmod(0)
        with without_privileges():
            assert "train.de cannot be read: Permission denied" in complaint(folder, {"cache_dir": "{}/intact"})
        (folder / "train.de").chmod(0o444)
        with without_privileges():
            assert "closed" in (sentence := complaint(folder, {"cache_dir": "{}/closed"}))
            assert "Permission denied" in sentence
            assert "cache_dir=DIR" in sentence
            assert len(files(folder, cache_dir="{}/intact").train) == 4, "what is there needs no permission to write"
