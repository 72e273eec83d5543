"""Apply the table of renamed options to the command line and to the config files that Hydra loads."""

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from heed import compat
from heed.progress import print_line
from heed.renamed import RENAMED, is_mapping_now, rename_overrides, rename_warning


def rename_command_line(renamed: Mapping[str, str] = RENAMED) -> None:
    """Replace old names in ``sys.argv``, which is also the command line of the processes that Lightning starts."""
    sys.argv[1:] = rename_with_warning(sys.argv[1:], renamed)


def rename_with_warning(overrides: Sequence[str], renamed: Mapping[str, str] = RENAMED) -> list[str]:
    """Replace old names in Hydra's overrides."""
    words, found = rename_overrides(overrides, renamed)
    for old in found:
        _warn(old, renamed[old])
    return words


def rename_in_presets(renamed: Mapping[str, str] = RENAMED) -> None:
    """Replace old names in all config files that Hydra loads from now on."""
    compat.hydra_edit_loaded_configs(lambda config: _rename_in_config(config, renamed))


def _rename_in_config(config: Any, renamed: Mapping[str, str]) -> None:
    """Replace old names in an OmegaConf config, in place and without resolving interpolations."""
    for old, new in renamed.items():
        parent, _, key = old.rpartition(".")
        node = OmegaConf.select(config, parent) if parent else config
        if isinstance(node, DictConfig) and key in list(node):  # `in node` would resolve the value
            container: Any = OmegaConf.to_container(node, resolve=False)
            value = container[key]
            if is_mapping_now(old, renamed) and (value is None or isinstance(value, dict)):
                continue
            del node[key]
            OmegaConf.update(config, new, value)
            _warn(old, new)


@cache
def _warn(old: str, new: str) -> None:
    """Print the warning, once in a process."""
    print_line(rename_warning(old, new))
