"""Entries of ``data.train``, ``data.valid`` and ``data.test``: files, patterns and folders."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from heed.data.formats.compression import SUFFIXES, without_compression
from heed.data.formats.fields import Fields
from heed.data.formats.parquet import ParquetFile
from heed.data.formats.records import CsvFile, JsonLines, TsvFile
from heed.data.formats.text_files import TextFiles
from heed.data.formats.tmx import TmxFile
from heed.data.text import Source
from heed.errors import HeedError

FileEntry = str | Sequence[str]
"""A pair of text files [source, target], or one file or folder with both sides; names may be patterns ("*.tsv.gz")."""

Entry = tuple[str, ...]
"""(source, target), or (file or folder with both sides,)."""

FORMATS: dict[str, Callable[[Path, Fields], Source]] = {
    ".jsonl": JsonLines,
    ".parquet": ParquetFile,
    ".tsv": TsvFile,
    ".csv": CsvFile,
    ".tmx": TmxFile,
}
"""Formats with both sides in a file, by suffix. A compressed file has a second suffix (.tsv.gz)."""

UNKNOWN_LANGUAGE = "und"
"""The ISO 639-2 code for an undetermined language. BLEU then uses its default tokenizer, 13a."""


def parse_entries(key: str, entries: Sequence[FileEntry]) -> list[Entry]:
    """Validate a list of entries from the command line.

    Args:
        key: the option below ``data`` that is parsed, for messages.
        entries: the value of the option.

    Raises:
        HeedError: naming the invalid entry.
    """
    if not entries or isinstance(entries, str):
        raise HeedError(f"data.{key}={entries} must be a list of pairs such as '[[a.en,a.de],[b.en,b.de]]'.")
    return [_parse_entry(key, entry) for entry in entries]


def _parse_entry(key: str, entry: FileEntry) -> Entry:
    names = [entry] if isinstance(entry, str) else list(entry or ())
    if not names or len(names) > 2 or not all(isinstance(name, str) and name for name in names):
        raise HeedError(f"data.{key}: {entry} is not a pair of text files, '[[source file,target file]]'.")
    kinds = [_format(name) for name in names]
    if len(names) == 2 and any(kinds):
        raise HeedError(
            f"data.{key}: {names} is not a pair of text files, '[[source file,target file]]'. A table with both sides "
            f"is given alone: '[{names[0]}]'."
        )
    try:
        paths = tuple(str(Path(name).expanduser()) for name in names)
    except RuntimeError as error:
        raise HeedError(f"data.{key}: {names}: the home directory does not exist.") from error
    if kinds == [None] and not _is_folder(paths[0]):
        if _format(without_compression(re.sub(r"\.(lz4|zip)$", ".gz", names[0]))):
            return paths  # the compression is refused when the file is read
        raise HeedError(
            f"data.{key}: {names[0]} has no second file. Give a pair of text files, '[[source file,target file]]', or "
            f"one file with both sides ({', '.join(FORMATS)}), which may be compressed ({', '.join(SUFFIXES)})."
        )
    return paths


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # of a name that is too long, or a folder that is closed
        return False


def _format(name: str) -> str | None:
    """Return the suffix of a format with both sides in a file; None for text files and folders."""
    suffix = Path(without_compression(name)).suffix.lower()
    return suffix if suffix in FORMATS else None


def find_sources(entry: Entry, fields: Fields) -> list[Source]:
    """Return the inputs of an entry: several for a pattern or a folder, in the order of their names.

    Raises:
        HeedError: if nothing matches, the matches of a pair of patterns do not correspond, or a folder cannot be read.
    """
    try:
        if len(entry) == 2:
            return _pair_files(*entry)
        return [source for path in _expand(entry[0]) for source in _open(path, fields)]
    except OSError as error:
        raise HeedError(f"{error.filename} cannot be read: {error.strerror}.") from error


def _pair_files(src: str, tgt: str) -> list[Source]:
    """Return pairs of text files. Of two patterns, the files correspond in the order of their names."""
    src_files, tgt_files = _expand(src), _expand(tgt)
    if len(src_files) != len(tgt_files):
        raise HeedError(
            f"{src} matches {len(src_files):,} files and {tgt} {len(tgt_files):,}: each source file needs its target "
            "file, in the order of their names."
        )
    for src_file, tgt_file in zip(src_files, tgt_files, strict=True):
        found = _wildcard_text(src, src_file), _wildcard_text(tgt, tgt_file)
        if len(found[0]) == len(found[1]) and found[0] != found[1]:
            raise HeedError(
                f"{src_file} would be paired with {tgt_file}, but what {src} and {tgt} match in their names differs: "
                "each source file needs its target file."
            )
    return [TextFiles(*files) for files in zip(src_files, tgt_files, strict=True)]


WILDCARD = r"(\*\*|\*|\?|\[[^]]+\])"
"""A wildcard of a pattern."""


def _wildcard_text(pattern: str, path: Path) -> tuple[str, ...]:
    """Return what each wildcard of a pattern stands for in a path that it matches; nothing for other paths."""
    expressions = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = ""
    for number, piece in enumerate(re.split(WILDCARD, Path(pattern).as_posix())):
        is_wildcard = number % 2
        expression += f"({expressions.get(piece, piece.replace('[!', '[^'))})" if is_wildcard else re.escape(piece)
    found = re.fullmatch(expression, path.as_posix())
    return found.groups() if found else ()


def _expand(name: str) -> list[Path]:
    """Return the paths that a pattern matches, or the path. As in a shell, "*" matches no hidden file."""
    if not re.search(WILDCARD, name) or Path(name).exists():
        return [Path(name)]
    root = Path(Path(name).anchor)
    is_hidden = Path(name).name.startswith(".")
    found = root.glob(str(Path(name).relative_to(root)))
    matches = sorted(path for path in found if path.name.startswith(".") == is_hidden)
    if not matches:
        raise HeedError(f"{name} matches no file (relative paths start at {Path.cwd()}).")
    return matches


def _open(path: Path, fields: Fields) -> list[Source]:
    if path.is_dir():
        return _open_folder(path, fields)
    suffix = _format(path.name)
    if suffix is None:
        raise HeedError(f"{path} has no second file: give '[[source file,target file]]'.")
    return [FORMATS[suffix](path, fields)]


def _open_folder(folder: Path, fields: Fields) -> list[Source]:
    """Return the files with both sides in a folder, and its pairs of text files NAME.SRC_LANG and NAME.TGT_LANG.

    Hidden files are skipped, such as those that macOS adds.

    Raises:
        HeedError: if a text file has no other side, or nothing is found.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    found: list[Source] = [source for file in files if _format(file.name) for source in _open(file, fields)]
    src_files, tgt_files = (_files_by_stem(files, language) for language in fields.languages)
    if alone := sorted(src_files.keys() ^ tgt_files.keys()):
        raise HeedError(
            f"{(src_files | tgt_files)[alone[0]]} has no translation in this folder: add it, or choose files by a "
            "pair of patterns."
        )
    found += [TextFiles(file, tgt_files[stem]) for stem, file in src_files.items()]
    if not found:
        raise HeedError(
            f"{folder} holds neither files with both sides ({', '.join(FORMATS)}) nor pairs of text files whose "
            "suffixes are data.src_lang and data.tgt_lang (a.en and a.de)."
        )
    return found


def _files_by_stem(files: Sequence[Path], language: str | None) -> dict[str, Path]:
    """Return the files whose suffix is a language by their names without it."""
    names = [(without_compression(file.name).rpartition("."), file) for file in files]
    return {stem: file for (stem, _, suffix), file in names if stem and suffix == language}


def name_test_sets(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Name test sets: "test" if there is one, otherwise the stems of their (source) files, numbered to be unique."""
    if len(entries) == 1:
        return {"test": entries}
    named: dict[str, list[Entry]] = {}
    for entry in entries:
        stem = re.sub(r"\.\w+$", "", without_compression(Path(entry[0]).name))
        # Results are UTF-8, file names may not be; and the name of a test set is part of file names.
        stem = re.sub(r"[\ud800-\udfff*?\[\]]", "_", stem)[:80] or "test"
        name, number = stem, 2
        while name in {"train", "valid", *named}:
            name, number = f"{stem}-{number}", number + 1
        named[name] = [entry]
    return named


def guess_languages_from_names(entry: Entry, fields: Fields) -> tuple[str | None, str | None]:
    """Guess the languages from the suffixes of two files, or from the two fields of one file.

    Returns:
        The codes of source and target. None: the name is not a language code, or both names are the same.
    """
    if len(entry) == 2:
        names = [Path(without_compression(name)).suffix[1:] for name in entry]
    else:
        names = [field.split(".")[-1] for field in (fields.src, fields.tgt)]
    codes = [
        name if re.fullmatch(r"[a-z]{2,3}([-_][A-Za-z]+)*", name) and name not in {"src", "tgt", "trg", "txt"} else None
        for name in names
    ]
    return (codes[0], codes[1]) if codes[0] != codes[1] else (None, None)


def guess_language_from_script(sentences: Sequence[str]) -> str:
    """Recognise Japanese, Korean and Chinese, which have their own BLEU tokenizers, by script; otherwise "und"."""
    scripts = [unicodedata.name(letter, "").split(" ")[0] for letter in "".join(sentences[:200]) if letter.isalpha()]
    for language, script in (("ja", "HIRAGANA"), ("ko", "HANGUL"), ("zh", "CJK")):
        if scripts.count(script) > 0.2 * len(scripts):
            return language
    return UNKNOWN_LANGUAGE
