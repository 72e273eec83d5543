"""Renamed options: the old names keep working for one release, with a warning."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

RENAMED: dict[str, str] = {
    "table_rate": "module.embedding_lr_scale",
    "label_smoothing": "module.label_smoothing",
    "r_drop": "module.r_drop",
    "embedding_lr_scale": "module.embedding_lr_scale",
    "clip_norm": "module.clip_norm",
    "max_skipped_steps": "module.max_skipped_steps",
    "callbacks.log_every": "trainer.log_every",
    "callbacks.keep_best": "trainer.keep_best",
    "callbacks.keep_last": "trainer.keep_last",
    "callbacks.maps": "callbacks.attention_maps.sentences",
    "callbacks.aer_sentences": "callbacks.alignment_error_rate.sentences",
    "callbacks.sample_translations": "callbacks.sample_translations.sentences",
    "callbacks.early_stopping": "callbacks.early_stopping.patience",
    "callbacks.ema": "callbacks.ema.decay",
    "logger.project": "logger.wandb.project",
    "logger.mode": "logger.wandb.mode",
}
"""Old name → new name of an option, both dotted (``model.dropout``). Applied to command lines, presets and the
``config.yaml`` of older runs.

An old name that the new one starts with (``callbacks.ema``) is a mapping now: it is renamed only where its value is
neither a mapping nor null."""


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
        match = re.fullmatch(r"(\+\+|\+|~|)([\w.]+)(?:(=)(.*))?", word, re.DOTALL)
        old = _old_name(match[2], renamed) if match else None
        if match and old and not (is_mapping_now(old, renamed) and _is_mapping_or_null(match[2], old, match[4])):
            found.append(old)
            word = f"{match[1]}{renamed[old]}{match[2].removeprefix(old)}{match[3] or ''}{match[4] or ''}"
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
        if not isinstance(node, dict) or key not in node:
            continue
        if is_mapping_now(old, renamed) and (node[key] is None or isinstance(node[key], dict)):
            continue
        value = node.pop(key)
        *parents, key = new.split(".")
        node = copy
        for parent in parents:
            node = node.setdefault(parent, {})
        node[key] = value
    return copy


def is_mapping_now(old: str, renamed: Mapping[str, str]) -> bool:
    """Return whether the old name of an option is that of a mapping now, which holds the option."""
    return renamed[old].startswith(f"{old}.")


def rename_warning(old: str, new: str) -> str:
    """Return the line that tells users to write the new name."""
    return f"{old} is now {new}; the old name will stop working in the next release."


def _old_name(name: str, renamed: Mapping[str, str]) -> str | None:
    """Return the old name that ``name`` is or starts with (``old.part``), if any."""
    return next((old for old in renamed if name == old or name.startswith(f"{old}.")), None)


def _is_mapping_or_null(name: str, old: str, value: str | None) -> bool:
    """Return whether an override is about the mapping that an option has become, and not about the old option."""
    return name != old or value is None or value == "null" or value.startswith("{")
