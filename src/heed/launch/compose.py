"""Compose the configuration of a run as ``train.py`` does, settle ``auto``, and find what differs from the defaults."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import hydra
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from hydra.utils import get_object
from omegaconf import OmegaConf, open_dict

from heed.errors import HeedError
from heed.files import expand_home, read_yaml
from heed.launch.program import CONF
from heed.options import format_value
from heed.runs.config import CONFIG_LIMIT, HYDRA_FOLDER, read_overrides

Config: TypeAlias = Any
"""Hydra's DictConfig, which beartype cannot check."""

PRESETS = ("experiment", "debug", "sweep")
"""Groups whose choices change options of all other groups."""
LEADING = ("data", "model")
"""Groups whose choices decide the defaults of others."""
UNLISTED = ("hydra", "sweep", "logger", "resume", "match_to")
"""Options without effect on a run's results."""
TYPICAL_PAIRS = 30_000  # the size for which a configuration is checked before its text is read
TRUTHS = ("", "true", "false", "yes", "no", "on", "off", "1", "0")
"""Values of ``resume`` that name no run, as OmegaConf reads them."""


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


def expand_resume(words: Sequence[str]) -> list[str]:
    """Replace ``resume=RUN`` in a command line by the options of the run that are not in it, and its folder.

    Raises:
        HeedError: if there is no such run.
    """
    given = _by_name(words)
    word = given.get("resume", "")
    value = word.partition("=")[2]
    if re.fullmatch(r"'.*'|\".*\"", value):
        value = str(OverridesParser.create().parse_override(word).value())
    if value.lower() in TRUTHS:
        return list(words)
    run = expand_home(value).absolute()
    if not (run / HYDRA_FOLDER / "hydra.yaml").is_file():
        raise HeedError(f"resume={value} names no run: give its folder (runs/NAME/TIME), or true for the newest run.")
    job = read_yaml(run / HYDRA_FOLDER / "hydra.yaml", limit=CONFIG_LIMIT)["hydra"]
    options = _by_name([*search_path(job["overrides"]["hydra"]), *read_overrides(run)])
    before = [word for name, word in options.items() if name not in (*given, "ckpt_path")]
    kept = [word for name, word in given.items() if name not in ("resume", "hydra.run.dir")]
    return [*before, *kept, f"hydra.run.dir={quote(run)}", "resume=true"]


def search_path(overrides: Iterable[str]) -> list[str]:
    """Return those of Hydra's own overrides that name folders with presets of the user (``--config-dir``)."""
    return [word for word in overrides if word.startswith("hydra.searchpath=")]


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


def _by_name(words: Sequence[str]) -> dict[str, str]:
    return {word.lstrip("+~").partition("=")[0]: word for word in words}


def compose(overrides: Sequence[str], *, folder: Path = Path("unused")) -> Config:
    """Return what ``train.py OVERRIDES`` composes for a run in ``folder``, and make it the current one of Hydra."""
    cfg = compose_with_hydra([*overrides, f"hydra.runtime.output_dir={quote(folder)}"])
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


def settle_auto(cfg: Config, count_pairs: Callable[[], int], before: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Give the options that are ``auto`` the values of the nearest number of pairs in the table.

    Numbers are compared by their ratio. ``count_pairs`` is not called if no option of the table is ``auto``. A run that
    is limited by steps or time needs no limit of epochs. The warm-up is at most a tenth of a limit of steps.
    A resumed run keeps the values that it had ``before``, because the limit of steps may have changed.

    Returns:
        What was chosen, under "Auto", for the lines before a run; nothing if no option is ``auto``.
    """
    limits = cfg.trainer
    if limits.get("max_epochs") == "auto" and (limits.get("max_steps") or limits.get("max_time")):
        limits.max_epochs = None
    table = yaml.safe_load((CONF / "auto.yaml").read_text(encoding="utf-8"))
    model = cfg.model.get("_target_")
    options = table.get(getattr(get_object(model), "family", None), {}) if model else {}
    names = [name for name in options if OmegaConf.select(cfg, name, default=None) == "auto"]
    if not names:
        return {}
    pairs = count_pairs()
    _, row = min((abs(math.log(size / max(pairs, 1))), row) for row, size in enumerate(table["pairs"]))
    values = {name: options[name][row] for name in names}
    steps = limits.get("max_steps")
    if (warmup := "schedule.warmup_steps") in values and isinstance(steps, int):  # other values are reported later
        values[warmup] = max(1, min(values[warmup], steps // 10))
    kept = OmegaConf.create(dict(before or {}))
    values = {name: OmegaConf.select(kept, name, default=value) for name, value in values.items()}
    for name, value in values.items():
        OmegaConf.update(cfg, name, value)
    chosen = " ".join(f"{name}={format_value(value)}" for name, value in values.items())
    return {"Auto": f"{chosen} (for {pairs:,} pairs)"}


def find_differences(cfg: Config) -> list[str]:
    """Return the choices and options that differ from the defaults, as overrides: ``model=rnn``, ``model.dropout=0.3``.

    An option is compared with its default under the run's choices, before presets and overrides. Loggers are left out.
    """
    job = HydraConfig.get()
    listed = yaml.safe_load((CONF / "train.yaml").read_text(encoding="utf-8"))["defaults"]
    defaults = {name: choice for group in listed if isinstance(group, dict) for name, choice in group.items()}
    followers = ("hydra/", "data_", "sweep/", "logger")  # choices that follow from others, and loggers
    chosen = {name: c for name, c in job.runtime.choices.items() if c and not name.startswith(followers)}
    leading = {name: chosen[name] for name in LEADING if name in chosen and chosen[name] != defaults[name]}
    presets = {name: chosen[name] for name in PRESETS if name in chosen}
    # The user's presets may choose configs in folders of the user.
    words = [*search_path(job.overrides.hydra), *(f"{name}={choice}" for name, choice in leading.items())]
    try:
        base = compose_with_hydra(words)
        usual = {**base.hydra.runtime.choices, **leading, **presets}
        others = {name: choice for name, choice in chosen.items() if choice != usual.get(name)}
        if others:
            base = compose_with_hydra([*words, *(f"{name}={choice}" for name, choice in others.items())])
    except HydraException:
        return list(job.overrides.task)  # the user has another primary config, or groups outside it
    plain: list[Any] = [OmegaConf.to_container(one, resolve=False) for one in (base, cfg)]
    before, after = ({**options, **dict.fromkeys(UNLISTED)} for options in plain)
    found = presets | leading | others
    choices = {name: found[name] for name in (*PRESETS, *LEADING, *defaults, *found) if name in found}
    return [*(f"{name}={choice}" for name, choice in choices.items()), *_changed_options(before, after)]


def _changed_options(before: Any, after: Any, prefix: str = "") -> Iterator[str]:
    for name in {**after, **before}:
        old, new = before.get(name), after.get(name)
        if isinstance(new, dict) and new:
            yield from _changed_options(old if isinstance(old, dict) else {}, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}={format_value(new)}"
