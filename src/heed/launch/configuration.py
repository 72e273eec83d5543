"""Build the parts of a run from Hydra's configuration, and report all wrong options at once."""

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.options import find_problems

PARTS = (
    "batching", "data", "tokenizer", "model", "optimizer", "schedule", "search", "trainer", "callbacks", "logger",
)  # fmt: skip
"""The parts of a run: each is a mapping in the configuration."""
PASSED_LATER = {
    "trainer": {"folder", "callbacks", "loggers"},
    "callbacks": {"folder", "selection"},
    "logger": {"folder", "config"},
    "optimizer": {"params"},
}
"""Arguments of parts that are known only when the run has started."""
MODULE_OPTIONS = ("label_smoothing", "r_drop", "embedding_lr_scale", "clip_norm", "max_skipped_steps", "seed")
"""Options at the root that are arguments of `TranslationModule`."""


def build_parts(cfg: Any) -> dict[str, Any]:
    """Build every part of a run with the constructor that the configuration names.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.

    Returns:
        The parts by their name in the configuration.

    Raises:
        HeedError: listing all options that are unknown, missing, of the wrong type or out of range, one a line.
    """
    from heed.training.module import TranslationModule

    config: Any = OmegaConf.to_container(cfg, resolve=True)
    if absent := [name for name in PARTS if not isinstance(config.get(name), dict)]:
        raise HeedError("\n".join(f"{name} is missing: give {name}=NAME, or leave out ~{name}." for name in absent))
    options = {name: config[name] for name in MODULE_OPTIONS if name in config}
    others = set(inspect.signature(TranslationModule).parameters) - set(MODULE_OPTIONS)
    problems = find_problems(TranslationModule, options, where="", later=others)
    nodes = {name: node for name, node in config.items() if isinstance(node, dict)}
    for name, node in nodes.items():
        problems += _part_problems(node, where=f"{name}.", later=PASSED_LATER.get(name, set()))
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
