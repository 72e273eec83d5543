"""From a command line to options: the only file of this package that composes with Hydra, beside `heed.launch.grid`."""

import re
from argparse import ArgumentError
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException as HydraException
from hydra.errors import MissingConfigException as MissingConfigException
from omegaconf import OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from heed.compat import hydra_flags
from heed.errors import HeedError
from heed.files import CONF, expand_home, read_yaml, write_file
from heed.options import format_value, raise_problems, suggest
from heed.progress import is_first_process
from heed.runs.config import CONFIG_LIMIT, HYDRA_FOLDER, read_overrides

Config: TypeAlias = Any
"""Hydra's DictConfig, which beartype cannot check."""
COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException)
Options = dict[str, Any]
"""All options of a run as plain data: mappings by group, without interpolations."""

PARTS = ("batching", "data", "tokenizer", "model", "module", "optimizer", "schedule", "search", "trainer")
"""The parts that every run has: each is a mapping with a ``_target_``."""
COLLECTIONS = ("callbacks", "logger")
"""Mappings of any number of objects with names; null stands for no object."""
UNLISTED = ("hydra", "sweep", "logger", "resume", "match_to", "folder", "cache_dir")
"""Options without effect on a run's results."""
TRUTHS = ("", "true", "false", "yes", "no", "on", "off", "1", "0")
"""Values of ``resume`` that name no run, as OmegaConf reads them."""


@dataclass
class Schema:
    """The options at the root, so that a typo there is an error. conf/train.yaml describes them."""

    name: str
    folder: str
    seed: int
    test: bool
    weights: str
    select: str
    resume: bool
    ckpt_path: str | None
    init_from: str | None
    license: str | None
    match: str | None
    match_to: str | None
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
    metrics: list[str] = field(default_factory=list)
    metric: dict[str, Any] = field(default_factory=dict)
    sweep: Any = None
    logger: dict[str, Any] = field(default_factory=dict)  # logger=none and logger=[] give nothing


ConfigStore.instance().store(name="schema", node=Schema)


@dataclass(frozen=True)
class Command:
    """What a command asks for, composed."""

    words: tuple[str, ...]
    """Choices and options as they were given, ``NAME=VALUE``, without Hydra's own."""
    presets: tuple[str, ...]
    """Hydra's option for the folders with presets of the user. Every process that reads ``words`` needs it."""
    options: Options
    """All options. Those that are ``auto`` are not yet settled."""
    choices: Mapping[str, str | None]
    """The choice of each group."""
    sweep: Any
    """The options of a search; None outside one."""
    folder: Path | None
    """Where to train; None: in a new folder of ``home``."""
    record: Config = field(repr=False)
    """What Hydra composed, with its own options."""

    @property
    def home(self) -> Path:
        """The folder of all runs of this name."""
        return Path("runs", self.options["name"]).absolute()

    @property
    def differences(self) -> list[str]:
        """The words that change what is computed."""
        return [word for word in self.words if re.split("[./]", option_name(word))[0] not in UNLISTED]

    @property
    def grid(self) -> list[str]:
        """The options that a grid's preset varies, and this command does not choose."""
        given = {option_name(word) for word in self.words}
        return [name for name in self.record.hydra.sweeper.get("params") or () if name not in given]

    def write_record(self, folder: Path) -> None:
        """Write ``.hydra/{config,hydra,overrides}.yaml`` in the first process.

        Hydra itself would do so before heed has claimed the folder.
        """
        if not is_first_process():
            return
        cfg = self.record
        with read_write(cfg.hydra):
            cfg.hydra.run.dir = cfg.hydra.runtime.output_dir = str(folder)
        composed = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
        nodes: dict[str, Any] = {"config": composed, "hydra": {"hydra": cfg.hydra}, "overrides": list(self.words)}
        (folder / HYDRA_FOLDER).mkdir(exist_ok=True)
        for name, node in nodes.items():
            write_file(folder / HYDRA_FOLDER / f"{name}.yaml", OmegaConf.to_yaml(OmegaConf.create(node)))


# ---- composing


def compose(words: Sequence[str], *, folder: Path | None = None) -> Command:
    """Return what ``train.py WORDS`` asks for, optionally in another folder. ``words`` has no flags."""
    command = to_command(compose_with_hydra(words))
    return replace(command, folder=folder) if folder else command


def to_command(cfg: Config) -> Command:
    """Return the command that Hydra has composed; raise a HeedError if a part of a run is missing."""
    before = HydraConfig.instance().cfg
    HydraConfig.instance().set_config(cfg)  # read by interpolations such as ${hydra:runtime.choices.model}
    try:
        job, own = cfg.hydra, OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
        options: Any = OmegaConf.to_container(own, resolve=True)
        absent = [name for name in (*PARTS, *COLLECTIONS) if not isinstance(options.get(name), dict)]
        raise_problems(f"{name} is missing: give {name}=NAME, or leave out ~{name}." for name in absent)
        is_job = OmegaConf.select(job, "job.num", throw_on_missing=False) is not None  # of a grid or study
        given = Path(job.runtime.output_dir if is_job else job.run.dir).absolute()
        words = (*job.overrides.task, *job.overrides.hydra)
        is_given = any(option_name(word) in ("folder", "hydra.run.dir") for word in words)
        return Command(
            words=tuple(job.overrides.task),
            presets=tuple(word for word in job.overrides.hydra if option_name(word) == "hydra.searchpath"),
            options=options,
            sweep=options.pop("sweep", None),
            choices=dict(job.runtime.choices),
            folder=given if is_job or is_given or given != Path("runs", options["name"]).absolute() else None,
            record=cfg,
        )
    finally:
        HydraConfig.instance().cfg = before


def compose_with_hydra(words: Sequence[str]) -> Config:
    """Return the configuration with Hydra's own options, also while a job of Hydra runs."""
    running = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return hydra.compose("train", list(words), return_hydra_config=True)
    finally:
        GlobalHydra.instance().hydra = running


# ---- words


def option_name(word: str) -> str:
    """Return the name in ``NAME=VALUE``, ``+NAME=VALUE`` or ``~NAME``."""
    return word.lstrip("+~").partition("=")[0]


def quote(value: Any) -> str:
    """Return a value in Hydra's grammar of overrides. Text is meant literally, ``${…}`` too."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(quote, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{quote(each)}' for key, each in value.items())}}}"
    if isinstance(value, str | Path):
        escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))  # OmegaConf would interpolate
        return QuotedString(escaped, Quote.single).with_quotes()
    return format_value(value)


def flags_last(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with Hydra's flags at the end: it refuses options after a flag.

    ``--config-dir`` becomes an option of Hydra, so that whatever composes these words finds the presets of the user.
    With ``--config-name`` it remains: that option finds no primary config.

    Raises:
        HeedError: if a flag does not exist, such as ``--lr``, or the folder of ``--config-dir``.
    """
    try:
        given, unknown = hydra_flags(words)
    except ArgumentError as error:
        raise HeedError(f"{error}.") from error
    if unknown:
        name = unknown[0].lstrip("-").partition("=")[0].replace("-", "_")
        similar = suggest(name, all_option_names(compose_with_hydra([])))
        raise HeedError(f"{unknown[0]} is unknown{similar}: options have no dashes, such as model.dropout=0.2.")
    if given.config_dir and not Path(given.config_dir).is_dir():
        raise HeedError(f"There is no folder {given.config_dir}: --config-dir names a folder with your own presets.")
    flags = [word for word in words if word not in given.overrides]
    if (folder := given.config_dir) is None or given.config_name:
        return [*given.overrides, *flags]
    flags = [word for word in flags if word != folder and not word.startswith(("--config-dir", "-cd"))]
    return [*given.overrides, f"hydra.searchpath=[{quote(f'file://{Path(folder).absolute()}')}]", *flags]


def expand_resume(words: Sequence[str]) -> list[str]:
    """Replace ``resume=RUN`` in a command line by the options of the run that are not in it, and its folder.

    Raises:
        HeedError: if there is no such run.
    """
    given = {option_name(word): word for word in words}
    value = _value(given.get("resume", ""))
    if value.lower() in TRUTHS:
        return list(words)
    run = expand_home(value).absolute()
    if not (run / HYDRA_FOLDER / "hydra.yaml").is_file():
        raise HeedError(f"resume={value} names no run: give its folder (runs/NAME/TIME), or true for the newest run.")
    job = read_yaml(run / HYDRA_FOLDER / "hydra.yaml", limit=CONFIG_LIMIT)["hydra"]
    presets = [word for word in job["overrides"]["hydra"] if option_name(word) == "hydra.searchpath"]
    options = {option_name(word): word for word in (*presets, *read_overrides(run))}
    before = [word for name, word in options.items() if name not in (*given, "ckpt_path", "folder")]
    kept = [word for name, word in given.items() if name not in ("resume", "folder", "hydra.run.dir")]
    return [*before, *kept, f"hydra.run.dir={quote(run)}", "resume=true"]


def expand(words: Sequence[str]) -> list[str]:
    """Return a command line with all choices that follow from ``resume=RUN`` and ``init_from=PARENT`` in it."""
    return choose_for_parent(expand_resume(words))


def choose_for_parent(words: Sequence[str]) -> list[str]:
    """Choose the model's family, and an optimizer, to fine-tune ``init_from=PARENT``, where the words choose none.

    The choice of ``model`` brings an optimizer and a schedule: without it, an RNN would be trained as the transformer
    is. An experiment's choices remain. A folder that holds no model is reported later.
    """
    given = {option_name(word): word for word in words}
    parent = _value(given.get("init_from", ""))
    if not parent or "experiment" in given:
        return list(words)
    config: dict[str, Any] = {}
    for file in ("model/config.yaml", "config.yaml", "config.json"):  # a run, a model folder, or Hugging Face's
        with suppress(HeedError):
            config = config or read_yaml(expand_home(parent) / file, limit=CONFIG_LIMIT)
    family = "transformer" if config.get("model_type") else config.get("family")
    if family not in ("transformer", "rnn"):
        return list(words)
    chosen = {"model": family}
    architecture = config.get("model")
    if config.get("model_type") == "marian" or (isinstance(architecture, dict) and architecture.get("norm") == "post"):
        chosen["optimizer"] = "adamw"
    return [*(f"{name}={choice}" for name, choice in chosen.items() if name not in given), *words]


def _value(word: str) -> str:
    """Return the value of ``NAME=VALUE`` without quotes."""
    value = word.partition("=")[2]
    if re.fullmatch(r"'.*'|\".*\"", value):
        value = str(OverridesParser.create().parse_override(word).value())
    return value


def all_option_names(cfg: Config) -> list[str]:
    """Return the groups and the dotted names of all options of a configuration with Hydra's own options."""
    options: Any = OmegaConf.to_container(cfg)
    return [*cfg.hydra.runtime.choices, *option_names(options)]


def option_names(node: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Yield the dotted names of all options of nested mappings."""
    for name, value in node.items():
        if not name.startswith("_") and prefix + name != "hydra":
            yield prefix + name
            if isinstance(value, dict):
                yield from option_names(value, f"{prefix}{name}.")
