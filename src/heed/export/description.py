"""``heed.json``: what an exported folder contains."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.files import check_regular

FILE = "heed.json"
LIMIT = 2**18
"""Maximum bytes of the file. Those that heed writes have about a thousand."""


def write_description(folder: Path, content: Mapping[str, Any]) -> None:
    """Write ``heed.json``."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read_description(folder: Path, target: str) -> dict[str, Any]:
    """Read ``heed.json`` of a folder that was exported to ``target``.

    Raises:
        HeedError: there is none, it is damaged, or the folder was exported to another format.
    """
    path = folder / FILE
    if not path.exists():
        raise HeedError(f"{folder} was not written by `heed export --to {target}`: it has no {FILE}.")
    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8") if path.stat().st_size <= LIMIT else ""
        content = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise HeedError(f"{path} is damaged or was not written by heed: export the model again.") from error
    languages = isinstance(content, dict) and all(
        isinstance(content.get(key), str) for key in ("to", "src_lang", "tgt_lang")
    )
    if not languages:
        raise HeedError(f"{path} is damaged or was not written by heed: export the model again.")
    if content["to"] != target:
        raise HeedError(f"{folder} was exported to {content['to']}: export the model with `--to {target}`.")
    return dict(content)
