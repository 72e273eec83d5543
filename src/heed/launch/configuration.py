"""Build the parts of a run from its configuration, and report wrong options and contradictions before data is read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from hydra.utils import get_object
from omegaconf import OmegaConf

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.corpus import Corpus
from heed.errors import HeedError, first_line
from heed.habits import exact, in_heed
from heed.inference import model_folder
from heed.launch.compose import TYPICAL_PAIRS, Config, Schema, settle_auto
from heed.launch.errors import option_names
from heed.launch.program import CONF
from heed.models import build_model
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq
from heed.options import (
    AtLeast0,
    collect_problems,
    find_problems,
    find_wrong_values,
    format_value,
    raise_problems,
    suggest,
)
from heed.progress import print_line
from heed.training.callbacks.ema import EMA
from heed.training.memory import checkpoint_layers
from heed.training.module import compiled_decode_hidden

Parts = dict[str, Any]
"""The parts of a run by their name in the configuration; those in `COLLECTIONS` are mappings of objects.

``text`` is a function that returns the corpus and the tokenizer, and reads them at the first call.
"""

PARTS = ("batching", "data", "tokenizer", "model", "module", "optimizer", "schedule", "search", "trainer")
"""The parts that every run has: each is a mapping with a ``_target_``."""
COLLECTIONS = ("callbacks", "logger")
"""Mappings of any number of objects with names; null stands for no object."""
PASSED_LATER = {
    "trainer": {"folder", "selection", "callbacks", "loggers"},
    "logger": {"folder", "config"},
    "optimizer": {"params"},
}
"""Arguments of parts that are known only when the run has started."""
WEIGHTS = ("best", "last", "ema", "average_best_k", "average_last_k")


def dry_run(cfg: Config) -> tuple[dict[str, Any], Parts]:
    """Build the parts of a run, and check them with the model on the meta device, so that mistakes surface in seconds.

    Returns:
        The options as plain data, and the parts. Options that are ``auto`` have the values for `TYPICAL_PAIRS`.

    Raises:
        HeedError: if an option is wrong, or if options contradict each other.
    """
    config = plain_options(cfg)
    parts = build_parts(config)
    for name, options in {"data.test": config["data"], "data.splits.test": config["data"].get("splits", {})}.items():
        if config["test"] and options.get("test", "") is None:
            raise HeedError(f"{name}=null: there is no test set. Add test=false, or give one.")
    _check_weights(config["weights"], config["trainer"], parts["callbacks"].values())
    model = build_model_on("meta", parts["model"], src_vocab=8, tgt_vocab=8, joint=True)
    if config["module"]["activation_checkpointing"]:
        checkpoint_layers(model)
    if config["module"]["compile"]:
        compiled_decode_hidden(model)
    try:
        parts["optimizer"]([{"params": list(model.parameters())}])
    except (TypeError, ValueError) as error:
        raise HeedError(f"optimizer: {error}") from error
    parts["schedule"](0)
    return config, parts


def plain_options(cfg: Config) -> dict[str, Any]:
    """Return the options as plain data, without changing those that are ``auto``."""
    cfg = cfg.copy()
    settle_auto(cfg, lambda: TYPICAL_PAIRS)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    return config


def build_parts(config: Mapping[str, Any]) -> Parts:
    """Build every part of a run with the constructor that the configuration names.

    Raises:
        HeedError: listing all options that are unknown, missing, of the wrong type, out of range or contradictory.
    """
    absent = [name for name in (*PARTS, *COLLECTIONS) if not isinstance(config.get(name), dict)]
    raise_problems(f"{name} is missing: give {name}=NAME, or leave out ~{name}." for name in absent)
    raise_problems(_misplaced(config))
    problems: list[str] = []
    parts: Parts = {name: {} for name in COLLECTIONS}
    for name in PARTS:
        with collect_problems(problems):
            parts[name] = build_part(config[name], where=f"{name}.", later=PASSED_LATER.get(name, ()))
    for name in COLLECTIONS:
        for key, node in config[name].items():
            with collect_problems(problems):
                if node is not None:
                    parts[name][key] = build_part(node, where=f"{name}.{key}.", later=PASSED_LATER.get(name, ()))
    raise_problems([*problems, *_advice_on_files(config["data"], problems)])
    parts["text"] = cache(partial(_load_text, config, parts))
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


def _load_text(config: Mapping[str, Any], parts: Parts) -> tuple[Corpus, Tokenizer]:
    """Read and clean the corpus; train its tokenizer, or read it from the cache or from the model of ``init_from``."""
    corpus: Corpus = parts["data"].load()
    print_line(corpus.train.describe_cleaning())
    if config["init_from"]:
        return corpus, Tokenizer.load(model_folder.find(Path(config["init_from"])))
    return corpus, parts["tokenizer"].train(corpus.train, config["cache_dir"], tags=corpus.tags + corpus.train.tags)


def build_part(node: Any, *, where: str, later: Collection[str] = ()) -> Any:
    """Build a part after the parts inside it, as `hydra.utils.instantiate` does, but report all problems at once.

    Args:
        node: the options of the part.
        where: the prefix of every option's name in messages: "model.".
        later: arguments that are passed when the run has started, to the partial object that is returned.

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
        problems += find_problems(target, arguments, where=where, later=[*later, *inner], name=node["_target_"])
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
        target = get_object(name)
    except (ImportError, ValueError) as error:
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


def _check_weights(weights: str, trainer: Mapping[str, Any], callbacks: Iterable[Any]) -> None:
    """Raise a HeedError unless the trainer will keep the checkpoints that ``weights=`` needs."""
    if weights not in WEIGHTS:
        raise HeedError(f"weights={weights} is unknown: choose one of {', '.join(WEIGHTS)}.")
    ema = next((c.decay for c in callbacks if isinstance(c, EMA)), None)
    if weights == "ema" and ema is None:
        raise HeedError("weights=ema needs a moving average: set callbacks.ema.decay, for example to 0.999.")
    if weights in ("best", "average_best_k") and ema is not None:
        raise HeedError(
            f"callbacks.ema.decay={ema} ranks checkpoints by their averaged weights, which weights={weights} does not "
            "use: choose weights=ema, or callbacks.ema.decay=null."
        )
    option = "keep_last" if weights in ("last", "average_last_k") else "keep_best"
    if trainer[option] == 0:
        raise HeedError(f"weights={weights} needs a checkpoint, but trainer.{option}=0 keeps none: choose 1 or more.")
    if trainer[option] == 1 and weights.startswith("average"):
        raise HeedError(f"weights={weights} averages several checkpoints: set trainer.{option} to 2 or more.")
