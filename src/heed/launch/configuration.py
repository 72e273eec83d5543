"""Build the parts of a run from Hydra's configuration, and report all wrong options at once."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from hydra.utils import get_object
from omegaconf import OmegaConf

from heed.errors import HeedError, first_line
from heed.options import collect_problems, find_problems, format_value, raise_problems

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
        HeedError: listing all options that are unknown, missing, of the wrong type, out of range or contradictory, one
            a line.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    names = (*PARTS, *COLLECTIONS)
    if absent := [name for name in names if not isinstance(config.get(name), dict)]:
        raise HeedError("\n".join(f"{name} is missing: give {name}=NAME, or leave out ~{name}." for name in absent))
    problems: list[str] = []
    parts: Parts = {}
    for name in PARTS:
        with collect_problems(problems):
            parts[name] = build_part(config[name], where=f"{name}.", later=PASSED_LATER.get(name, set()))
    for name in COLLECTIONS:
        parts[name] = {}
        for key, node in config[name].items():
            with collect_problems(problems):
                parts[name][key] = _build_member(node, where=f"{name}.{key}", later=PASSED_LATER.get(name, set()))
    raise_problems(problems)
    return parts


def _build_member(node: Any, *, where: str, later: Collection[str]) -> Any:
    """Build an object of a collection, or return None for null."""
    if node is None:
        return None
    if not isinstance(node, dict):
        raise HeedError(f"{where}={format_value(node)} must be null or an object with {where}._target_.")
    return build_part(node, where=f"{where}.", later=later)


def build_part(node: Mapping[str, Any], *, where: str, later: Collection[str] = ()) -> Any:
    """Build a part after the parts inside it, as `hydra.utils.instantiate` does, but report all problems at once.

    Args:
        where: the prefix of every option's name in messages: "model.".
        later: arguments that are passed when the run has started, to the partial object that is returned.

    Raises:
        HeedError: listing what is wrong with the part and with the parts inside it, one sentence a line.
    """
    inner = [name for name, value in node.items() if isinstance(value, dict) and "_target_" in value]
    arguments = {name: value for name, value in node.items() if name not in inner and not name.startswith("_")}
    problems: list[str] = []
    for name in inner:
        with collect_problems(problems):
            arguments[name] = build_part(node[name], where=f"{where}{name}.")
    with collect_problems(problems):
        target = _find_target(node, where)
        problems += find_problems(target, arguments, where=where, later=[*later, *inner])
    raise_problems(problems)
    if node.get("_partial_"):
        return partial(target, **arguments)
    try:
        return target(**arguments)
    except HeedError:
        raise
    except Exception as error:  # of any type: another library's constructor
        raise HeedError(f"{where}_target_={node['_target_']} cannot be built: {first_line(error)}") from error


def _find_target(node: Mapping[str, Any], where: str) -> Callable[..., Any]:
    if "_target_" not in node:
        raise HeedError(f"{where}_target_ is missing: it names the class or function to call.")
    try:
        target = get_object(node["_target_"])
    except (ImportError, ValueError) as error:
        raise HeedError(f"{where}_target_={node['_target_']} cannot be imported.") from error
    if not callable(target):
        raise HeedError(f"{where}_target_={node['_target_']} cannot be called: name a class or a function.")
    return target
