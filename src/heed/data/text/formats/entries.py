"""Entries of ``data.train``, ``data.valid`` and ``data.test``: find their files, and choose a format."""

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from glob import glob
from pathlib import Path

from heed.data.text.formats.files import COMPRESSED, find_format, refuse_format, without_compression
from heed.data.text.formats.records import (
    read_bars,
    read_csv,
    read_json,
    read_json_lines,
    read_parquet,
    read_tmx,
    read_tsv,
)
from heed.data.text.formats.sources import Fields, FileSource, read_text
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.files import expand_home
from heed.progress import Advance

FileEntry = str | Sequence[str]
"""A pair of text files [source, target], or one file with both sides; names may be patterns ("*.tsv.gz")."""
Entry = tuple[str, ...]
"""(source, target), or (file with both sides,)."""
READERS: dict[str, Callable[[FileSource, Advance], Iterator[Sentences]]] = {
    "jsonl": read_json_lines,
    "json": read_json,
    "parquet": read_parquet,
    "tsv": read_tsv,
    "bars": read_bars,
    "csv": read_csv,
    "tmx": read_tmx,
}
"""Readers of files with both sides, by format: see `find_format`."""
SUFFIXES = (".jsonl", ".parquet", ".tsv", ".csv", ".tmx")
"""Suffixes of files with both sides: their format, unless the first lines tell another."""
WILDCARD = r"(\*\*|\*|\?|\[[^]]+\])"
"""A regular expression for a wildcard of a pattern."""


def parse_entries(key: str, entries: Sequence[FileEntry]) -> list[Entry]:
    """Return the value of the option ``data.KEY``, or raise a HeedError that names the invalid entry."""
    if not entries or isinstance(entries, str):
        raise HeedError(f"data.{key}={entries} must be a list of pairs such as '[[a.en,a.de],[b.en,b.de]]'.")
    return [_parse_entry(key, entry) for entry in entries]


def _parse_entry(key: str, entry: FileEntry) -> Entry:
    names = [entry] if isinstance(entry, str) else list(entry)
    has_both_sides = len(names) == 2 and any(map(_format, names))
    if has_both_sides or len(names) not in (1, 2) or not all(names):
        hint = f" Give a file with both sides alone: '[{names[0]}]'." if has_both_sides else ""
        raise HeedError(f"data.{key}: {entry} is not a pair of text files, '[[source file,target file]]'.{hint}")
    try:
        return tuple(str(expand_home(name)) for name in names)
    except HeedError as error:
        raise HeedError(f"data.{key}: {error}") from error


def _format(name: str) -> str | None:
    """Return the format of a suffix of `SUFFIXES`; None for text files."""
    suffix = Path(without_compression(name)).suffix.lower()  # a compressed file has a second one (.tsv.gz)
    return suffix[1:] if suffix in SUFFIXES else None


def find_sources(entry: Entry, fields: Fields) -> list[FileSource]:
    """Return the sources of an entry, sorted by name: several for a pattern.

    Raise a HeedError if nothing matches, or the matches of two patterns do not correspond.
    """
    try:
        if len(entry) == 2:
            return _pair_files(*entry)
        return [_open(path, fields) for path in _expand(entry[0])]
    except OSError as error:
        raise HeedError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _pair_files(src: str, tgt: str) -> list[FileSource]:
    """Return pairs of text files. The matches of two patterns are paired in the order of their names."""
    src_files, tgt_files = _expand(src), _expand(tgt)
    if len(src_files) != len(tgt_files):
        raise HeedError(
            f"{src} matches {len(src_files):,} files and {tgt} matches {len(tgt_files):,}: each source file needs one "
            "target file, in the order of their names."
        )
    for src_file, tgt_file in zip(src_files, tgt_files, strict=True):
        found = _wildcard_text(src, src_file), _wildcard_text(tgt, tgt_file)
        if len(found[0]) == len(found[1]) and found[0] != found[1]:
            raise HeedError(
                f"{src_file} would be paired with {tgt_file}, but the wildcards of {src} and {tgt} match different "
                "text: each source file needs its target file."
            )
    return list(map(_open_pair, src_files, tgt_files))


def _open_pair(*files: Path) -> FileSource:
    for file in files:
        if name := find_format(file, in_pair=True):
            refuse_format(file, name)
    return FileSource(files, read_text)


def _wildcard_text(pattern: str, path: Path) -> tuple[str, ...]:
    """Return the text that each wildcard of a pattern matches in a path; empty if the pattern does not match."""
    expressions = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(WILDCARD, Path(pattern).as_posix())  # text and wildcards in turn
    pieces[::2] = map(re.escape, pieces[::2])
    pieces[1::2] = (f"({expressions.get(wildcard, wildcard.replace('[!', '[^'))})" for wildcard in pieces[1::2])
    found = re.fullmatch("".join(pieces), path.as_posix())
    return found.groups() if found else ()


def _expand(name: str) -> list[Path]:
    """Return the paths that a pattern matches, or a plain path itself. As in a shell, "*" skips hidden files."""
    if not re.search(WILDCARD, name) or Path(name).exists():
        return [Path(name)]
    matches = sorted(map(Path, glob(name, recursive=True)))  # noqa: PTH207  # unlike Path.glob, it skips hidden files
    if not matches:
        raise HeedError(f"{name} matches no file (relative paths start at {Path.cwd()}).")
    return matches


def _open(path: Path, fields: Fields) -> FileSource:
    if os.path.isdir(path):  # noqa: PTH112  # False for a name that is too long
        raise HeedError(
            f"{path} is a folder: name its files by a pair of patterns, '[[{path}/*.en,{path}/*.de]]', or by one for "
            f"files with both sides, '[{path}/*.tsv]'."
        )
    by_suffix, found = _format(path.name), find_format(path)
    if by_suffix is None and found and found not in READERS:
        refuse_format(path, found)
    name = found if found in READERS else by_suffix
    if name is None:
        raise HeedError(
            f"{path} has no second file. Give a pair of text files, '[[source file,target file]]', or one file with "
            f"both sides ({', '.join(SUFFIXES)}), which may be compressed ({', '.join(COMPRESSED)})."
        )
    return FileSource((path,), READERS[name], fields)
