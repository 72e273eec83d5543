"""Files of parallel text, of any kind, to pairs of sentences; an unusable one is named, with the line.

A sentence is one line from here on: line breaks inside a field (a JSON string may hold some) become spaces, and nothing
else of the text is changed.
"""

import gzip
import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.data.cache import BLOCK, mapped_dataset
from heed.errors import HeedError

if TYPE_CHECKING:
    from datasets import Dataset

Source = str | Sequence[str]
"""A pair of text files [source, target], or one JSONL or parquet file."""

Block = tuple[list[str], list[str]]
"""Sources and targets of some consecutive pairs."""

UNKNOWN_LANGUAGE = "und"
"""ISO 639-2 for a language nobody named. BLEU then uses its default tokenizer, 13a."""


def file_entries(key: str, entries: Sequence[Source]) -> list[tuple[Path, ...]]:
    """The files of a list on the command line: (source, target) or (one file with both)."""
    if not entries or isinstance(entries, str):
        raise HeedError(f"data.{key} is a list of pairs such as '[[a.en,a.de],[b.en,b.de]]', not {entries!r}.")
    files = [(entry,) if isinstance(entry, str) else tuple(entry) for entry in entries]
    for entry in files:
        if len(entry) == 1 and _format(Path(entry[0])) == "text":
            raise HeedError(
                f"data.{key}: {entry[0]} stands alone. Text comes in pairs, '[[source file,target file]]'; "
                "one file with both sides ends in .jsonl, .jsonl.gz or .parquet."
            )
        if len(entry) > 2 or (len(entry) == 2 and any(_format(Path(file)) != "text" for file in entry)):
            raise HeedError(f"data.{key}: {list(entry)} is not a pair of text files, '[[source file,target file]]'.")
    return [tuple(Path(file).expanduser() for file in entry) for entry in files]


def named_by_file(entries: list[tuple[Path, ...]]) -> dict[str, list[tuple[Path, ...]]]:
    """One test set is "test"; several go by the names of their (source) files, numbered where two agree."""
    if len(entries) == 1:
        return {"test": entries}
    named: dict[str, list[tuple[Path, ...]]] = {}
    for entry in entries:
        stem = re.sub(r"(\.jsonl|\.parquet|\.\w+)?(\.gz)?$", "", entry[0].name)
        name, number = stem, 2
        while name in {"train", "valid", *named}:
            name, number = f"{stem}-{number}", number + 1
        named[name] = [entry]
    return named


def _format(file: Path) -> str:
    plain = file.with_suffix("") if file.suffix == ".gz" else file
    return {".jsonl": "jsonl", ".parquet": "parquet"}.get(plain.suffix, "text")


def read_files(files: tuple[Path, ...], fields: tuple[str, str], cache_dir: Path) -> "Dataset":
    """The pairs of one entry as a memory-mapped dataset; rewritten when a file changes."""
    import pyarrow as pa

    for file in files:
        if not file.is_file():
            raise HeedError(f"{file} does not exist (relative paths start at {Path.cwd()}).")
    stats = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.blake2b(repr((stats, fields)).encode(), digest_size=8).hexdigest()
    schema = pa.schema([("src", pa.string()), ("tgt", pa.string())])
    tables = (pa.table(block, schema=schema) for block in _pairs(files, fields))
    dataset = mapped_dataset(cache_dir / "text" / f"{files[0].name}-{key}.arrow", schema, tables)
    if not len(dataset):
        raise HeedError(f"{' and '.join(map(str, files))}: no sentences.")
    return dataset


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
    """Lines as only "\\n" ends them, ``BLOCK`` at a time. Python's text mode would also split at a lone "\\r"."""
    number = 0
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        while raw := _block(stream, file):
            lines = []
            for line in raw:
                number += 1
                try:
                    lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n"))
                except UnicodeDecodeError as error:
                    raise HeedError(
                        f"{file}, line {number:,}: not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x}). "
                        f"Convert it first, for instance: iconv -f ISO-8859-1 -t UTF-8 {file}"
                    ) from error
            yield lines


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
            except (ValueError, KeyError) as error:
                raise HeedError(f"{file}, line {number:,}: {_reason(error)}") from error
        yield block


def _parquet_pairs(file: Path, fields: tuple[str, str]) -> Iterator[Block]:
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file) as table:
            columns = [name for name in table.schema_arrow.names if name in {field.split(".")[0] for field in fields}]
            for batch in table.iter_batches(batch_size=BLOCK, columns=columns):
                block: Block = ([], [])
                for record in batch.to_pylist():
                    number += 1
                    for column, field in zip(block, fields, strict=True):
                        column.append(one_line(_field(record, field)))
                yield block
    except (ValueError, KeyError) as error:  # what is no parquet file is a ValueError, too
        raise HeedError(f"{file}{f', row {number:,}' if number else ''}: {_reason(error)}") from error


def _field(record: Any, field: str) -> str:
    """The text under a dotted path.

    Raises:
        KeyError: with a sentence, where there is none.
    """
    value = record
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            has = ", ".join(map(str, value)) if isinstance(value, Mapping) else f"{value!r:.40}"
            raise KeyError(
                f"no field {field!r} (there is: {has}); data.src_field and data.tgt_field name the two sides."
            )
        value = value[key]
    if not isinstance(value, str):
        raise KeyError(f"field {field!r} is {value!r:.40}, which is not text.")
    value.encode()  # JSON can write half a surrogate pair, which is no text: UnicodeEncodeError, a ValueError
    return value


def _reason(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) else first_line(error)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def one_line(text: str) -> str:
    return text.rstrip("\r\n").replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def languages_by_name(entry: tuple[Path, ...], fields: tuple[str, str]) -> tuple[str | None, str | None]:
    """Language codes from the two files' suffixes, or from the two fields of one file, where they differ."""
    if len(entry) == 2:
        names = [(file.with_suffix("") if file.suffix == ".gz" else file).suffix[1:] for file in entry]
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
