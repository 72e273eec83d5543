"""From Hydra's configuration to the parts of a run, and from what may be wrong with it to a sentence."""

import inspect
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException, MissingConfigException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from heed.errors import HeedError
from heed.files import NO_ROOM
from heed.options import did_you_mean, problems

PARTS = (
    "batching", "data", "tokenizer", "model", "optimizer", "schedule", "search", "trainer", "callbacks", "logger",
)  # fmt: skip
"""What a run is made of, each a mapping in the configuration."""
GIVEN_LATER = {
    "trainer": {"folder", "callbacks", "loggers"},
    "callbacks": {"folder", "selection"},
    "logger": {"folder", "config"},
    "optimizer": {"params"},
}
"""Arguments of parts that are known only when the run has begun."""
ROOT_OPTIONS = ("label_smoothing", "r_drop", "embedding_lr_scale", "clip_norm", "max_skipped_steps", "seed")
"""Options at the root that are the training module's."""


class JobFailed(BaseException):
    """Carries the error of a run, its cause, past Hydra, which would print a line of its own before it."""


class PassOn(Callback):
    """Hydra's callback that raises it. The failed jobs of a sweep are for Hydra to deal with."""

    def on_job_end(self, config: Any, job_return: JobReturn, **_: Any) -> None:
        if job_return.status == JobStatus.FAILED and HydraConfig.get().mode == RunMode.RUN:
            raise JobFailed from job_return._return_value


def build(cfg: Any) -> dict[str, Any]:
    """Every part of a run by its name in the configuration, made by the constructor that the configuration names.

    Args:
        cfg: Hydra's DictConfig, a name that beartype is at odds with.

    Raises:
        HeedError: with everything that is unknown, missing, of the wrong type or out of range, a line each.
    """
    from heed.training.module import TranslationModule

    config: Any = OmegaConf.to_container(cfg, resolve=True)
    if absent := [name for name in PARTS if not isinstance(config.get(name), dict)]:
        raise HeedError("\n".join(f"{name} is missing: give {name}=NAME, or leave out ~{name}." for name in absent))
    scalars = {name: config[name] for name in ROOT_OPTIONS if name in config}
    found = problems(TranslationModule, scalars, where="", later=_parameters(TranslationModule) - set(ROOT_OPTIONS))
    nodes = {name: node for name, node in config.items() if isinstance(node, dict)}
    for name, node in nodes.items():
        found += _problems(node, where=f"{name}.", later=GIVEN_LATER.get(name, set()))
    if found:
        raise HeedError("\n".join(found))
    return {name: instantiate(cfg[name], _convert_="all") for name in nodes}


def _parameters(target: Any) -> set[str]:
    return set(inspect.signature(target).parameters)


def _problems(node: Mapping[str, Any], *, where: str, later: Collection[str] = ()) -> list[str]:
    """What is wrong with a part and, first, with the parts inside it."""
    found = []
    given: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, dict) and "_target_" in value:
            found += _problems(value, where=f"{where}{name}.")
            given[name] = object()  # of its own type, whatever that is
        elif not name.startswith("_"):
            given[name] = value
    if "_target_" not in node:
        return [*found, f"{where}_target_ is missing: it names what to build."]
    try:
        target = get_object(node["_target_"])
    except (ImportError, ValueError):
        return [*found, f"{where}_target_={node['_target_']} cannot be imported."]
    if not callable(target):
        return [*found, f"{where}_target_={node['_target_']} cannot be called: name a class or a function."]
    return found + problems(target, given, where=where, later=later)


def explain(error: BaseException, *, conf: Path, overrides: Sequence[str]) -> str | None:
    """What to tell the user who can mend it, in a sentence; None where only a programmer can.

    Args:
        conf: the folder of the configuration.
        overrides: what was said on the command line.
    """
    causes = list(_causes(error))
    for cause in causes:
        # Lightning's exception by its name: to know its class would cost a misspelt command five seconds.
        if isinstance(cause, HeedError) or type(cause).__name__ == "MisconfigurationException":
            return str(cause)
        if isinstance(cause, MissingConfigException) and cause.options is not None:
            return _unknown_choice(str(cause.missing_cfg_file), cause.options)
        if isinstance(cause, HydraException) and (unknown := re.match(r"Could not override '(.+?)'", str(cause))):
            return _unknown_name(unknown[1], conf, overrides)
        if isinstance(cause, OSError) and cause.errno:
            verb = "written" if cause.errno in NO_ROOM else "used"
            return f"{cause.filename or 'A file'} cannot be {verb}: {os.strerror(cause.errno)}."
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        if removed := [override for override in overrides if override.startswith("~")]:
            return (
                f"{' and '.join(removed)} removes what a run needs: leave it out, or choose another one in its place."
            )
        return ": ".join(_first_line(cause) for cause in causes)
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _unknown_choice(file: str, options: Sequence[str]) -> str:
    """For ``model=transfomer``, whose file would be model/transfomer."""
    group, _, choice = file.rpartition("/")
    close = did_you_mean(choice, options, f"{group}=")
    return f"{group}={choice} is unknown{close}: there is {', '.join(sorted(options))}."


def _unknown_name(name: str, conf: Path, overrides: Sequence[str]) -> str:
    """For ``modle=rnn`` and ``optimizer.lrr=1``: names like it, as they are with all that was said beside it."""
    others = [override for override in overrides if override.lstrip("+~").partition("=")[0] != name]
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf), version_base="1.3"):
        try:
            cfg = compose("train", others, return_hydra_config=True)
        except (HydraException, OmegaConfBaseException):
            cfg = compose("train", return_hydra_config=True)
    known = [*cfg.hydra.runtime.choices, *_names(OmegaConf.to_container(cfg))]
    return f"{name} is unknown{did_you_mean(name, known)}: `python train.py --cfg job` shows every setting."


def _names(node: Any, where: str = "") -> Iterator[str]:
    for name, value in node.items():
        if not name.startswith("_") and where + name != "hydra":
            yield where + name
            if isinstance(value, dict):
                yield from _names(value, f"{where}{name}.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
