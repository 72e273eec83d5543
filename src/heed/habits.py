"""heed's words for what users of other tools type first: ``habits.toml``."""

import re
import tomllib
from collections.abc import Collection
from functools import cache
from pathlib import Path


@cache
def read_habits(section: str) -> dict[str, str]:
    """Return heed's words by the name in other tools, of a section of ``habits.toml``."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[section]
    return {name: words for names, words in rows.items() for name in names.split()}


def in_heed(name: str, *, section: str = "train", known: Collection[str] | None = None) -> str:
    """Return heed's words for an option, a choice such as ``model=lstm``, a flag or a command of other tools, or "".

    Args:
        name: with or without its path: ``trainer.gpus`` or ``gpus``.
        known: the names that exist: the first of the words that is one of them is returned. None: return all words.
    """
    rows, name = read_habits(section), name.lstrip("+~-").replace("-", "_").lower()
    words = rows.get(name) or ("" if "=" in name else rows.get(re.split("[./]", name)[-1], ""))
    if known is not None:
        return next((word for word in words.split() if word in known), "")
    return "" if name in exact(words).split() else words


def exact(words: str) -> str:
    """Return the options among heed's words, which a comma or a colon ends."""
    return re.split("[,:] |$", words)[0]
