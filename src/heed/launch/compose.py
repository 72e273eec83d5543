"""Compose the configuration of a run as ``train.py`` does, and find the options that differ from the defaults."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict

from heed.launch.program import CONF
from heed.options import format_value

Config: TypeAlias = Any
"""Hydra's DictConfig, which beartype cannot check."""

PRESETS = ("experiment", "debug", "sweep")
"""Groups whose choices change options of all other groups."""


@dataclass
class Schema:
    """The options at the root, so that a typo there is an error. conf/train.yaml describes them."""

    name: str
    seed: int
    test: bool
    weights: str
    select: str
    resume: bool
    ckpt_path: str | None
    init_from: str | None
    license: str | None
    cache_dir: str
    batching: Any
    data: Any
    tokenizer: Any
    model: Any
    module: Any
    optimizer: Any
    schedule: Any
    search: Any
    trainer: Any
    callbacks: Any
    metrics: dict[str, Any] = field(default_factory=dict)
    sweep: Any = None
    logger: dict[str, Any] = field(default_factory=dict)  # logger=none and logger=[] give nothing


ConfigStore.instance().store(name="schema", node=Schema)


def compose(overrides: Sequence[str], *, folder: Path = Path("unused")) -> Config:
    """Return what ``train.py OVERRIDES`` composes for a run in ``folder``, and make it the current one of Hydra."""
    cfg = compose_with_hydra([*overrides, f"hydra.runtime.output_dir='{folder}'"])
    HydraConfig.instance().set_config(cfg)  # read by interpolations such as ${hydra:runtime.choices.model}
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg


def compose_with_hydra(overrides: Sequence[str]) -> Config:
    """Return the configuration with Hydra's own options, also while a job of Hydra runs."""
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return hydra.compose("train", list(overrides), return_hydra_config=True)
    finally:
        GlobalHydra.instance().hydra = running


def find_differences(cfg: Config) -> list[str]:
    """Return the choices and options that differ from the defaults, as overrides: ``model=rnn``, ``model.dropout=0.3``.

    An option is compared with its default under the run's choices, before presets and overrides.
    """
    job = HydraConfig.get()
    # Hydra lists the groups of conf/train.yaml from the last to the first. Some choices follow from others.
    groups = [name for name in [*job.runtime.choices][::-1] if not name.startswith(("hydra/", "data_", "sweep/"))]
    choices = {name: job.runtime.choices[name] for name in sorted(groups, key=lambda name: name not in PRESETS)}

    def changed(defaults: Mapping[str, Any], *, nested: bool) -> dict[str, Any]:
        differ = {name: choice for name, choice in choices.items() if choice not in (None, defaults.get(name))}
        return {name: choice for name, choice in differ.items() if ("/" in name) == nested}

    listed = yaml.safe_load((CONF / "train.yaml").read_text(encoding="utf-8"))["defaults"]
    defaults = {name: choice for group in listed if isinstance(group, dict) for name, choice in group.items()}
    outer = changed(defaults, nested=False)
    # Hydra does not record the choice of several configs, as in logger=[csv,wandb].
    several = [
        word for word in job.overrides.task if (match := re.fullmatch(r"(\w+)=\[.*\]", word)) and match[1] in defaults
    ]
    # The user's presets may choose configs in folders of the user.
    folders = [f"'file://{source.path}'" for source in job.runtime.config_sources if source.schema == "file"]
    words = [f"hydra.searchpath=[{','.join(folders)}]", *several]
    words += _words({name: choice for name, choice in outer.items() if name not in PRESETS})
    try:
        base = compose_with_hydra(words)
        # Groups inside others, such as model/attention, have other defaults under other choices of the outer group.
        if inner := changed(base.hydra.runtime.choices, nested=True):
            base = compose_with_hydra([*words, *_words(inner)])
    except HydraException:
        return list(job.overrides.task)  # the user has another primary config, or groups outside it
    plain: list[Any] = [OmegaConf.to_container(one, resolve=False) for one in (base, cfg)]
    # A resumed run has the results of an uninterrupted one.
    before, after = ({**options, "hydra": None, "sweep": None, "resume": None} for options in plain)
    return [*_words({**outer, **inner}), *several, *_changed_options(before, after)]


def _changed_options(before: Any, after: Any, prefix: str = "") -> Iterator[str]:
    for name in {**after, **before}:
        old, new = before.get(name), after.get(name)
        if isinstance(new, dict) and new:
            yield from _changed_options(old if isinstance(old, dict) else {}, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}={format_value(new)}"


def _words(options: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]
