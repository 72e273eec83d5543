"""Write the corpus as compressed JSONL."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from grammar.corpus import Contrast, Example

SIZES = {"train": 24_000, "valid": 1_000, "test": 1_000, "long": 500}
"""Pairs of each split of the corpus that heed ships."""
CONTRASTS_PER_TAG = 400
"""Contrasts for each phenomenon of the challenge set that heed ships."""


def line(record: Example | Contrast) -> str:
    """Return a line of a file, without its end."""
    return json.dumps(record.record(), ensure_ascii=False, separators=(",", ":"))


def write(folder: Path, name: str, records: Sequence[Example | Contrast]) -> Path:
    """Write ``name.jsonl.gz`` and return its path. Equal records give equal bytes, whatever the time and the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl.gz"
    content = "".join(f"{line(record)}\n" for record in records).encode()
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=9, fileobj=file, mtime=0) as compressed:
        compressed.write(content)
    return path
