"""Build the parts of a run from its options, and report all that is wrong with them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any

import torch

from heed.errors import HeedError, first_line
from heed.files import CONF
from heed.launch.compose import COLLECTIONS, PARTS, Options, Schema, option_names
from heed.models import build_model
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq
from heed.options import (
    AtLeast0,
    collect_problems,
    exact,
    find_problems,
    find_wrong_values,
    format_value,
    in_heed,
    raise_problems,
    suggest,
)

Parts = dict[str, Any]
"""The parts of a run by their name in the options; those in `COLLECTIONS` are mappings of objects."""

PASSED_LATER = {
    "trainer": {"folder", "selection", "callbacks", "loggers"},
    "logger": {"folder", "config"},
    "optimizer": {"params"},
    "metric": {"output"},
}
"""Arguments that are known only when the run has started, of the parts of these groups."""


def build_parts(config: Options) -> Parts:
    """Build every part of a run with the constructor that the options name.

    Raises:
        HeedError: listing all options that are unknown, missing, of the wrong type, out of range or contradictory.
    """
    raise_problems(_misplaced(config))
    problems: list[str] = []
    parts: Parts = {name: {} for name in COLLECTIONS}
    for name in PARTS:
        with collect_problems(problems):
            parts[name] = build_part(config[name], where=f"{name}.")
    for name in COLLECTIONS:
        for key, node in config[name].items():
            with collect_problems(problems):
                if node is not None:
                    parts[name][key] = build_part(node, where=f"{name}.{key}.")
    raise_problems([*problems, *_advice_on_files(config["data"], problems)])
    return parts


def _misplaced(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each wrong option at the root, and for each option whose value is a choice of a group."""
    yield from find_wrong_values({"seed": AtLeast0}, config, where="")
    names = list(option_names(config))
    for name in config.keys() - Schema.__annotations__.keys():
        if similar := suggest(name, [each for each in names if each != name]):
            yield f"{name} is unknown{similar}."
    for folder in sorted(CONF.glob("*/*/")):
        group, option = folder.relative_to(CONF).parts
        value = (config.get(group) or {}).get(option)
        if isinstance(value, str):
            choice = f"{group}/{option}={value}"
            yield f"{group}.{option}={value} is no choice: {exact(in_heed(choice)) or choice} chooses it."


def _advice_on_files(data: Mapping[str, Any], problems: Sequence[str]) -> Iterator[str]:
    """Yield how files of one's own are given, if the problems are about them."""
    wrong = [name for name in ("train", "valid", "test") if any(p.startswith(f"data.{name}=") for p in problems)]
    values = [data[name] for name in wrong]
    is_files = data["_target_"].endswith(".FilesCorpus")
    if not is_files and any(isinstance(value, str | list) for value in values):
        yield "Files of your own need data=files."
    if is_files and any(isinstance(value, str) for value in values):
        yield "Two files of sentence pairs are data.train='[[a.en,a.de]]'."
    if any(problem.startswith("data.test must be given") for problem in problems):
        yield "To train without a test set: data.test=null test=false."


def build_part(node: Any, *, where: str) -> Any:
    """Build a part after the parts inside it, as `hydra.utils.instantiate` does, but report all problems at once.

    Args:
        node: the options of the part; of one whose arguments are `PASSED_LATER`, a partial object is returned.
        where: the prefix of every option's name in messages: "model.".

    Raises:
        HeedError: listing what is wrong, one sentence a line.
    """
    if not isinstance(node, dict):
        raise HeedError(f"{where[:-1]}={format_value(node)} must be null or an object with {where}_target_.")
    inner = [name for name, value in node.items() if isinstance(value, dict) and "_target_" in value]
    arguments = {name: value for name, value in node.items() if name not in inner and not name.startswith("_")}
    problems: list[str] = []
    for name in inner:
        with collect_problems(problems):
            arguments[name] = build_part(node[name], where=f"{where}{name}.")
    with collect_problems(problems):
        target = _find_target(node.get("_target_"), where)
        later = [*inner, *PASSED_LATER.get(where.partition(".")[0], ())]
        problems += find_problems(target, arguments, where=where, later=later, name=node["_target_"])
    raise_problems(problems)
    if node.get("_partial_"):
        return partial(target, **arguments)
    try:
        return target(**arguments)
    except HeedError:
        raise
    except Exception as error:  # of any type: another library's constructor
        raise HeedError(f"{where}_target_={node['_target_']} cannot be built: {first_line(error)}") from error


def _find_target(name: Any, where: str) -> Callable[..., Any]:
    if name is None:
        raise HeedError(f"{where}_target_ is missing: it names the class or function to call.")
    try:
        target = resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise HeedError(f"{where}_target_={name} cannot be imported.") from error
    if not callable(target):
        raise HeedError(f"{where}_target_={name} cannot be called: name a class or a function.")
    return target


def build_model_on(device: str, architecture: ModelConfig, **vocabulary: Any) -> TrainableSeq2Seq:
    """Build the model; on the device "meta" it takes no memory. Raise a HeedError if it is too large for torch."""
    try:
        with torch.device(device):
            return build_model(architecture, **vocabulary)
    except (RuntimeError, OverflowError, MemoryError, TypeError) as error:  # TypeError: a size beyond 64 bits
        raise HeedError(f"This model is too large ({first_line(error)}): choose smaller sizes (model.*).") from error
