"""Renamed options: the old names keep working for one release, with a warning."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

RENAMED: dict[str, str] = {
    "table_rate": "embedding_lr_scale",
}
"""Old name → new name of an option, both dotted (``model.dropout``). Applied to command lines, presets and the
``config.yaml`` of older runs."""


def rename_overrides(overrides: Sequence[str], renamed: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Replace the old names of options in Hydra's command-line overrides.

    Args:
        overrides: ``name=value`` with an optional ``+``, ``++`` or ``~`` in front; other words are kept as they are.
        renamed: old name → new name.

    Returns:
        The overrides with new names, and the old names that occurred.
    """
    words, found = [], []
    for word in overrides:
        match = re.fullmatch(r"(\+\+|\+|~|)([\w.]+)((?:=.*)?)", word, re.DOTALL)
        old = _old_name(match[2], renamed) if match else None
        if match and old:
            found.append(old)
            word = f"{match[1]}{renamed[old]}{match[2].removeprefix(old)}{match[3]}"
        words.append(word)
    return words, found


def rename_keys(config: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of a nested config with the new names of its options."""
    copy = {key: rename_keys(value, {}) if isinstance(value, Mapping) else value for key, value in config.items()}
    for old, new in renamed.items():
        *parents, key = old.split(".")
        node: Any = copy
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        if isinstance(node, dict) and key in node:
            value = node.pop(key)
            *parents, key = new.split(".")
            node = copy
            for parent in parents:
                node = node.setdefault(parent, {})
            node[key] = value
    return copy


def rename_warning(old: str, new: str) -> str:
    """Return the line that tells users to write the new name."""
    return f"{old} is now {new}; the old name will stop working in the next release."


def _old_name(name: str, renamed: Mapping[str, str]) -> str | None:
    """Return the old name that ``name`` is or starts with (``old.part``), if any."""
    return next((old for old in renamed if name == old or name.startswith(f"{old}.")), None)
