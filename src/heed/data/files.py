"""Files of parallel text, of any kind, to pairs of sentences; an unusable one is named, with the line.

A sentence is one line from here on: line breaks inside a field (a JSON string may hold some) become spaces, and nothing
else of the text is changed.
"""

import gzip
import hashlib
import json
import re
import shlex
import stat
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.data.cache import BLOCK, mapped_dataset
from heed.errors import HeedError, first_line

if TYPE_CHECKING:
    from datasets import Dataset

Source = str | Sequence[str]
"""A pair of text files [source, target], or one JSONL or parquet file."""

Block = tuple[list[str], list[str]]
"""Sources and targets of some consecutive pairs."""

COMPRESSIONS = {
    "gzip": (".gz", rb"\x1f\x8b\x08", "gunzip"),
    "zstd": (".zst", rb"\x28\xb5\x2f\xfd", "zstd -d"),
    "xz": (".xz", rb"\xfd7zXZ\x00", "xz -d"),
    "bzip2": (".bz2", rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", "bzip2 -d"),
    "lz4": (".lz4", rb"\x04\x22\x4d\x18", "lz4 -d"),
    "zip": (".zip", rb"PK\x03\x04", "unzip"),
}
"""Compressed formats: the suffix, a regular expression for the first bytes, and the command that decompresses."""

UNKNOWN_LANGUAGE = "und"
"""ISO 639-2 for a language nobody named. BLEU then uses its default tokenizer, 13a."""


def file_entries(key: str, entries: Sequence[Source]) -> list[tuple[Path, ...]]:
    """Return the files of a list on the command line: (source, target) or (one file with both).

    Raises:
        HeedError: naming the entry that is neither.
    """
    if not entries or isinstance(entries, str):
        raise HeedError(f"data.{key} is a list of pairs such as '[[a.en,a.de],[b.en,b.de]]', not {entries!r}.")
    return [_file_entry(key, entry) for entry in entries]


def _file_entry(key: str, entry: Source) -> tuple[Path, ...]:
    names = [entry] if isinstance(entry, str) else list(entry or ())
    if not names or len(names) > 2 or not all(isinstance(name, str) and name for name in names):
        raise HeedError(f"data.{key}: {entry} is not a pair of text files, '[[source file,target file]]'.")
    formats = [_format(Path(name)) for name in names]
    if formats == ["text"]:
        packed = next((name for name, (suffix, _, _) in COMPRESSIONS.items() if names[0].endswith(suffix)), None)
        if packed and packed != "gzip":
            raise HeedError(f"data.{key}: {names[0]} {_cannot_decompress(packed, Path(names[0]))}")
        raise HeedError(
            f"data.{key}: {names[0]} stands alone. Text comes in pairs, '[[source file,target file]]' (`cut -f1` "
            "takes a column out of a TSV file); one file with both sides ends in .jsonl, .jsonl.gz or .parquet."
        )
    if len(names) == 2 and formats != ["text", "text"]:
        raise HeedError(f"data.{key}: {names} is not a pair of text files, '[[source file,target file]]'.")
    try:
        return tuple(Path(name).expanduser() for name in names)
    except RuntimeError as error:
        raise HeedError(f"data.{key}: {names}: there is no such home directory.") from error


def named_by_file(entries: list[tuple[Path, ...]]) -> dict[str, list[tuple[Path, ...]]]:
    """One test set is "test"; several go by the names of their (source) files, numbered where two agree."""
    if len(entries) == 1:
        return {"test": entries}
    named: dict[str, list[tuple[Path, ...]]] = {}
    for entry in entries:
        stem = re.sub(r"(\.jsonl|\.parquet|\.\w+)?(\.gz)?$", "", entry[0].name)
        stem = re.sub(r"[\ud800-\udfff]", "_", stem)[:80] or "test"  # results are UTF-8, and file names may not be
        name, number = stem, 2
        while name in {"train", "valid", *named}:
            name, number = f"{stem}-{number}", number + 1
        named[name] = [entry]
    return named


def _plain(file: Path) -> Path:
    """The name without .gz."""
    return file.with_suffix("") if file.suffix == ".gz" else file


def _format(file: Path) -> str:
    return {".jsonl": "jsonl", ".parquet": "parquet"}.get(_plain(file).suffix, "text")


def read_files(files: tuple[Path, ...], fields: tuple[str, str], cache_dir: Path) -> "Dataset":
    """Return the pairs of one entry as a memory-mapped dataset, converted again when a file changes.

    Raises:
        HeedError: naming the file, and the line where there is one, that cannot be used.
    """
    import pyarrow as pa

    for file in files:
        _check_file(file)
    if len(files) == 2 and files[0].samefile(files[1]):
        raise HeedError(
            f"{files[0]} is given for both sides: name a source file and a target file (columns of a TSV file are "
            "taken out with `cut -f1` and `cut -f2`; to copy text on purpose, give a copy of the file)."
        )
    stats = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.blake2b(repr((stats, fields)).encode(), digest_size=8).hexdigest()
    # Part of the name tells people what it is; all of it may be too long for a file name, or not UTF-8.
    name = re.sub(r"[^A-Za-z0-9._-]", "_", files[0].name)[:80]
    schema = pa.schema([("src", pa.string()), ("tgt", pa.string())])
    tables = (pa.table(block, schema=schema) for block in _pairs(files, fields))
    dataset = mapped_dataset(cache_dir / "text" / f"{name}-{key}.arrow", schema, tables)
    if not len(dataset):
        raise HeedError(f"{' and '.join(map(str, files))}: no sentences.")
    return dataset


def _check_file(file: Path) -> None:
    """Refuse a file that is not there or is not what its name says, before anything is read from it."""
    try:
        mode = file.stat().st_mode
        if not stat.S_ISREG(mode):  # a named pipe would wait for its writer, and /dev/zero never ends
            kind = "a folder" if stat.S_ISDIR(mode) else "a named pipe, a device or a socket"
            raise HeedError(f"{file} is {kind}: a regular file is needed.")
        with file.open("rb") as stream:
            start = stream.read(16)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise HeedError(f"{file} does not exist (relative paths start at {Path.cwd()}).") from error
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {error.strerror}.") from error
    expected = "gzip" if file.suffix == ".gz" and _format(file) != "parquet" else None
    found = next((name for name, (_, magic, _) in COMPRESSIONS.items() if re.match(magic, start)), None)
    if found == expected or not start:
        return
    if found is None:
        raise HeedError(f"{file} is not compressed with gzip, as its name says: rename it, without .gz.")
    if found == "gzip" and _format(file) != "parquet":
        raise HeedError(f"{file} is compressed with gzip, and its name does not end in .gz: rename it.")
    raise HeedError(f"{file} {_cannot_decompress(found, file)}")


def _cannot_decompress(compression: str, file: Path) -> str:
    _, _, command = COMPRESSIONS[compression]
    return (
        f"is compressed with {compression}, which cannot be read here: decompress it first, for instance: "
        f"{command} {shlex.quote(str(file))}"
    )


def _pairs(files: tuple[Path, ...], fields: tuple[str, str]) -> Iterator[Block]:
    if len(files) == 2:
        yield from _text_pairs(*files)
    elif _format(files[0]) == "jsonl":
        yield from _jsonl_pairs(files[0], fields)
    else:
        yield from _parquet_pairs(files[0], fields)


def _text_pairs(src_file: Path, tgt_file: Path) -> Iterator[Block]:
    src_lines = tgt_lines = 0
    src: list[str]
    tgt: list[str]
    for src, tgt in zip_longest(_lines(src_file), _lines(tgt_file), fillvalue=[]):
        src_lines, tgt_lines = src_lines + len(src), tgt_lines + len(tgt)
        if len(src) == len(tgt):
            yield [one_line(text) for text in src], [one_line(text) for text in tgt]
    if src_lines != tgt_lines:
        raise HeedError(
            f"{src_file} has {src_lines:,} lines and {tgt_file} {tgt_lines:,}: "
            "line n of one must translate line n of the other."
        )


def _lines(file: Path) -> Iterator[list[str]]:
    """Yield ``BLOCK`` lines at a time. Only "\\n" ends a line; Python's text mode would also split at a lone "\\r"."""
    number = 0
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        while raw := _block(stream, file):
            lines = []
            for line in raw:
                number += 1
                try:
                    lines.append(_decoded(line, file, first=number == 1))
                except ValueError as error:
                    raise HeedError(f"{file}, line {number:,}: {error}") from error
            yield lines


def _decoded(line: bytes, file: Path, *, first: bool) -> str:
    """Return the text of a line without its end.

    Raises:
        ValueError: with a sentence, if it is not a line of UTF-8 text, or has columns.
    """
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line:
        raise ValueError(
            "not UTF-8 text, but UTF-16 or binary data (it has a UTF-16 byte order mark or zero bytes). Convert UTF-16 "
            f"with: iconv -f UTF-16 -t UTF-8 {shlex.quote(str(file))}"
        )
    try:
        text = line.decode("utf-8-sig" if first else "utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). "
            f"Convert it first, for instance: iconv -f ISO-8859-1 -t UTF-8 {shlex.quote(str(file))}"
        ) from error
    if "\t" in text and _plain(file).suffix == ".tsv":
        raise ValueError(
            "a tab separates columns, and one sentence a line is needed. Take each column into a file of its own, for "
            f"instance: cut -f1 {shlex.quote(str(file))} > FILE"
        )
    return text


def _block(stream: Iterable[bytes], file: Path) -> list[bytes]:
    try:
        return list(islice(stream, BLOCK))
    except (EOFError, OSError, zlib.error) as error:
        raise HeedError(f"{file} cannot be read: {first_line(error)}") from error


def _jsonl_pairs(file: Path, fields: tuple[str, str]) -> Iterator[Block]:
    number = 0
    for lines in _lines(file):
        block: Block = ([], [])
        for line in lines:
            number += 1
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                for column, field in zip(block, fields, strict=True):
                    column.append(one_line(_field(record, field)))
            except (ValueError, KeyError, RecursionError) as error:
                raise HeedError(f"{file}, line {number:,}: {_reason(error)}") from error
        yield block


def _parquet_pairs(file: Path, fields: tuple[str, str]) -> Iterator[Block]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # A path that is not UTF-8 is beyond Arrow; checksums are verified where the writer left some.
        with file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
            columns = [name for name in table.schema_arrow.names if name in {field.split(".")[0] for field in fields}]
            for batch in table.iter_batches(batch_size=BLOCK, columns=columns):
                block: Block = ([], [])
                for record in batch.to_pylist():
                    number += 1
                    for column, field in zip(block, fields, strict=True):
                        column.append(one_line(_field(record, field)))
                yield block
    except KeyError as error:  # of a record; Arrow's own errors are of several other classes
        raise HeedError(f"{file}, row {number:,}: {_reason(error)}") from error
    except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
        raise HeedError(
            f"{file} cannot be read as parquet: {_reason(error)} (a damaged file? Rows read before: {number:,})."
        ) from error


def _field(record: Any, field: str) -> str:
    """The text under a dotted path.

    Raises:
        KeyError: with a sentence, where there is none.
    """
    value = record
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            has = f"{', '.join(map(str, value)):.200}" if isinstance(value, Mapping) else f"{value!r:.40}"
            raise KeyError(
                f"no field {field!r} (there is: {has}); data.src_field and data.tgt_field name the two sides."
            )
        value = value[key]
    if not isinstance(value, str):
        raise KeyError(f"field {field!r} is {value!r:.40}, which is not text.")
    value.encode()  # JSON can write half a surrogate pair, which is no text: UnicodeEncodeError, a ValueError
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply for a sentence pair."
    return str(error.args[0]) if isinstance(error, KeyError) else first_line(error)


def one_line(text: str) -> str:
    return text.rstrip("\r\n").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def languages_by_name(entry: tuple[Path, ...], fields: tuple[str, str]) -> tuple[str | None, str | None]:
    """Language codes from the two files' suffixes, or from the two fields of one file, where they differ."""
    if len(entry) == 2:
        names = [_plain(file).suffix[1:] for file in entry]
    else:
        names = [field.split(".")[-1] for field in fields]
    codes = [
        name if re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]+)*", name) and name not in {"src", "tgt", "trg", "txt"} else None
        for name in names
    ]
    return (codes[0], codes[1]) if codes[0] != codes[1] else (None, None)


def language_by_script(sentences: Sequence[str]) -> str:
    """The three languages whose BLEU tokenizers are their own, each known by letters no other language uses."""
    scripts = [unicodedata.name(letter, "").split(" ")[0] for letter in "".join(sentences[:200]) if letter.isalpha()]
    for language, script in (("ja", "HIRAGANA"), ("ko", "HANGUL"), ("zh", "CJK")):
        if scripts.count(script) > 0.2 * len(scripts):
            return language
    return UNKNOWN_LANGUAGE
