"""The weights from which a run started. Weights of unrelated runs must not be averaged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.runs.config import find_config


def check_lineage(folders: Sequence[Path]) -> str | None:
    """Check that models started from the same weights: the mean of unrelated weights has no meaning.

    Runs are related if they were initialised with the same seed, if one started from the other's weights, or if both
    started from a third's (Wortsman et al. 2022, "Model soups").

    Args:
        folders: model folders.

    Returns:
        A warning, if the initial weights of a model are unknown.

    Raises:
        HeedError: if two models are unrelated.
    """
    runs = list(dict.fromkeys(folder.resolve().parent for folder in folders))
    first, *others = runs
    related = _ancestors(first)
    for run in others:
        ancestors = _ancestors(run)
        if not (ancestors and related):
            unknown = run if related else first
            return (
                f"the initial weights of {unknown} are unknown. Unless all models started with the same seed or from "
                "the same model, their mean translates badly: evaluate it."
            )
        if not ancestors & related:
            raise HeedError(
                f"{first} and {run} started from different weights ({_origin(first)}, {_origin(run)}): their mean has "
                "no meaning. Average checkpoints of one run, or runs with the same init_from; or use an ensemble "
                "(heed translate --model A --model B)."
            )
    return None


def _ancestors(run: Path) -> set[str]:
    """Return the run, the runs whose weights it started from, and the seed of the first; empty if unknown."""
    found: set[str] = set()
    while str(run) not in found and (config := find_config(run)):
        found.add(str(run))
        if not (parent := _parent(config)):
            return found | {f"seed {config['seed']}"}
        # A run, its model folder, or one of its checkpoints.
        path = Path(parent).resolve()
        run = next((above for above in (path, *path.parents[:2]) if find_config(above)), path)
    # The first ancestor may be deleted; other runs may name it too.
    return found | {str(run)} if found else found


def _origin(run: Path) -> str:
    """Return what a run started from: another model, or a seed."""
    config = find_config(run) or {}
    parent = _parent(config)
    return f"from {parent}" if parent else f"seed={config.get('seed')}"


def _parent(config: Mapping[str, Any]) -> str:
    return str(config.get("init_from") or config.get("ckpt_path") or "")
