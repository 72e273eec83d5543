"""Build the parts of a run from Hydra's configuration, and report all wrong options at once."""

from collections.abc import Collection, Mapping
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.options import find_problems, shown

Parts = dict[str, Any]
"""The parts of a run by their name in the configuration; those in `COLLECTIONS` are mappings of objects or None."""

PARTS = ("batching", "data", "tokenizer", "model", "module", "optimizer", "schedule", "search", "trainer")
"""The parts that every run has: each is a mapping with a ``_target_``."""
COLLECTIONS = ("callbacks", "logger")
"""Mappings of any number of objects with names; null stands for no object."""
PASSED_LATER = {
    "module": {"model", "tokenizer", "optimizer", "schedule", "search", "seed", "comet"},
    "trainer": {"folder", "selection", "callbacks", "loggers"},
    "logger": {"folder", "config"},
    "optimizer": {"params"},
}
"""Arguments of parts that are known only when the run has started."""


def build_parts(cfg: Any) -> Parts:
    """Build every part of a run with the constructor that the configuration names.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.

    Raises:
        HeedError: listing all options that are unknown, missing, of the wrong type or out of range, one a line.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    nodes = (*PARTS, *COLLECTIONS)
    if absent := [name for name in nodes if not isinstance(config.get(name), dict)]:
        raise HeedError("\n".join(f"{name} is missing: give {name}=NAME, or leave out ~{name}." for name in absent))
    problems = []
    for name in PARTS:
        problems += _part_problems(config[name], where=f"{name}.", later=PASSED_LATER.get(name, set()))
    for name in COLLECTIONS:
        for key, node in config[name].items():
            if isinstance(node, dict):
                problems += _part_problems(node, where=f"{name}.{key}.", later=PASSED_LATER.get(name, set()))
            elif node is not None:
                problems.append(f"{name}.{key}={shown(node)} must be null or an object with {name}.{key}._target_.")
    if problems:
        raise HeedError("\n".join(problems))
    return {name: instantiate(cfg[name], _convert_="all") for name in nodes}


def _part_problems(node: Mapping[str, Any], *, where: str, later: Collection[str] = ()) -> list[str]:
    """Return what is wrong with a part and, before that, with the parts inside it."""
    found = []
    given: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, dict) and "_target_" in value:
            found += _part_problems(value, where=f"{where}{name}.")
            given[name] = object()  # stands for the part that will be built
        elif not name.startswith("_"):
            given[name] = value
    if "_target_" not in node:
        return [*found, f"{where}_target_ is missing: it names the class or function to call."]
    try:
        target = get_object(node["_target_"])
    except (ImportError, ValueError):
        return [*found, f"{where}_target_={node['_target_']} cannot be imported."]
    if not callable(target):
        return [*found, f"{where}_target_={node['_target_']} cannot be called: name a class or a function."]
    return found + find_problems(target, given, where=where, later=later)
