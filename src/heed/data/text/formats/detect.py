"""Tell the format of a file by its first lines, because suffixes are often missing or misleading."""

import csv
import json
import re
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heed.data.text.formats.files import read_bytes
from heed.errors import HeedError

FORMATS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""For each format how it starts, and why heed does not read it in a pair or alone, if so."""
START = 2**16  # bytes that are read
ROWS = 100  # lines that are read as rows of a table
SURE_ROWS = 10  # rows from which one side of a pair is taken for a table, because sentences too may have tabs


def find_format(file: Path, *, in_pair: bool = False) -> str | None:
    """Return the format of a file, a key of `FORMATS`; None for plain text, and if the file cannot be read.

    One side of a pair is probably plain text.
    """
    content = b""
    try:
        for chunk in read_bytes(file, lambda _: None):
            content += chunk
            if len(content) >= START:
                break
    except HeedError:  # reading the file will say why
        return None
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    text = content[:START].decode(encoding, errors="ignore").lstrip()
    known = (name for name, kind in FORMATS.items() if re.match(kind["start"], text, re.IGNORECASE))
    lines = text.split("\n") if len(content) < START else text.split("\n")[:-1]
    rows = [line for line in lines if line.rstrip("\r")][:ROWS]
    return next(known, None) or _json_format(text) or _table_format(rows, in_pair)


def refuse_format(file: Path, name: str | None, where: str) -> None:
    """Raise a HeedError if heed does not read a file of this format ``where`` it is given: "pair" or "alone"."""
    if name is not None and (reason := FORMATS[name].get(where)):
        raise HeedError(f"{file} {reason.format(file=file)}.")


def require_plain_text(file: Path) -> None:
    """Raise a HeedError if a file has another format than one sentence per line."""
    if name := find_format(file, in_pair=True):
        reason = FORMATS[name].get("pair") or FORMATS[name]["alone"]
        raise HeedError(f"{file} {reason.partition(':')[0]}: give plain text with one sentence per line.")


def arrays_of_objects(value: Any) -> list[list[Any]]:
    """Return the arrays of objects that a JSON value is or contains."""
    values = value.values() if isinstance(value, dict) else [value]
    return [each for each in values if isinstance(each, list) and each and isinstance(each[0], dict)]


def _json_format(text: str) -> str | None:
    """Return "jsonl" for an object per line, "json" for one object with an array of all pairs, None for other text."""
    if not re.match(r'\{\s*("[^"\n]*"\s*:|$)', text):
        return None
    line, _, rest = text.partition("\n")
    try:
        return "json" if len(arrays_of_objects(json.loads(line))) == 1 and not rest.strip() else "jsonl"
    except (ValueError, RecursionError):
        return "json" if re.match(r'\{\s*(\n|"[^"\n]*"\s*:\s*\[)', text) else "jsonl"


def _table_format(rows: Sequence[str], in_pair: bool) -> str | None:
    """Return the format of a table if these rows all have a separator, and as many columns if it is a comma."""
    if not rows or (in_pair and len(rows) < SURE_ROWS):
        return None
    for name, separator in (("tsv", "\t"), ("bars", "|||")):
        if all(separator in row for row in rows):
            return name
    try:
        widths = {len(row) for row in csv.reader(rows, strict=True)}
    except csv.Error:
        return None
    is_quoted = all(row.startswith('"') and row.rstrip().endswith('"') for row in rows)
    return "csv" if len(widths) == 1 < max(widths) and (is_quoted or (len(rows) > 2 and not in_pair)) else None
