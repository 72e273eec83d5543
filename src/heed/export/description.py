"""``heed.json``: what an exported folder contains."""

import json
from pathlib import Path
from typing import Any

from heed import __version__
from heed.errors import HeedError
from heed.files import check_regular
from heed.inference.translator import Translator

FILE = "heed.json"
LIMIT = 2**18
"""Maximum bytes of the file. Those that heed writes have about a thousand."""


def write_description(folder: Path, target: str, translator: Translator, **facts: Any) -> None:
    """Write ``heed.json``: the engine, the version of heed, the languages, the search, and further facts."""
    content = {
        "to": target,
        "heed": __version__,
        "src_lang": translator.src_lang,
        "tgt_lang": translator.tgt_lang,
        "search": translator.saved_search,
        **facts,
    }
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
        content = json.loads(path.read_text(encoding="utf-8") if path.stat().st_size <= LIMIT else "")
        is_description = all(isinstance(content[key], str) for key in ("to", "src_lang", "tgt_lang"))
    except (OSError, ValueError, RecursionError, TypeError, LookupError):
        is_description = False
    if not is_description:
        raise HeedError(f"{path} is damaged or was not written by heed: export the model again.")
    if content["to"] != target:
        raise HeedError(f"{folder} was exported to {content['to']}: export the model with `--to {target}`.")
    return dict(content)
