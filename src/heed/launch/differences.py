"""Which options of a run differ from the defaults."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import OmegaConf

from heed.launch.compose import compose_with_hydra
from heed.options import format_value

PRESETS = ("experiment", "debug", "sweep")
"""Groups whose choices change options of all other groups."""


def find_differences(cfg: Any) -> list[str]:
    """Return the choices and options that differ from the defaults, as overrides: ``model=rnn``, ``model.dropout=0.3``.

    An option is compared with the default that it has under the run's choices, before presets and overrides.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.
    """
    try:
        return _find_differences(cfg, HydraConfig.get())
    except HydraException:
        return list(HydraConfig.get().overrides.task)  # the user has another primary config, or groups outside it


def _find_differences(cfg: Any, job: Any) -> list[str]:
    # The user's presets may choose configs in folders of the user.
    folders = [f"'file://{source.path}'" for source in job.runtime.config_sources if source.schema == "file"]
    search = f"hydra.searchpath=[{','.join(folders)}]"
    choices = _choices(job)
    changed = _changed_choices(choices, _default_choices(), nested=False)
    # Hydra does not record the choice of several configs, as in logger=[csv,wandb].
    several = [word for word in job.overrides.task if re.fullmatch(r"\w+=\[.*\]", word) and _is_group(word)]
    outer = [f"{group}={choice}" for group, choice in changed.items() if group not in PRESETS] + several
    base = compose_with_hydra([search, *outer])
    # Groups inside others, such as model/attention, have other defaults under other choices of the outer group.
    if nested := _changed_choices(choices, _choices(base.hydra), nested=True):
        base = compose_with_hydra([search, *outer, *(f"{group}={choice}" for group, choice in nested.items())])
    before: Any = OmegaConf.to_container(base, resolve=False)
    after: Any = OmegaConf.to_container(cfg, resolve=False)
    del before["hydra"], before["sweep"]
    del before["resume"], after["resume"]  # a resumed run has the results of an uninterrupted one
    return [
        *(f"{group}={choice}" for group, choice in {**changed, **nested}.items()),
        *several,
        *_changed_options(before, after),
    ]


@cache
def _default_choices() -> dict[str, Any]:
    return _choices(compose_with_hydra([]).hydra)


def _is_group(word: str) -> bool:
    return word.partition("=")[0] in _default_choices()


def _choices(hydra: Any) -> dict[str, Any]:
    """Return the choices of groups except Hydra's own and those that follow from others, presets first."""
    names = [name for name in hydra.runtime.choices if not name.startswith(("hydra/", "data_", "sweep/"))]
    names.reverse()  # Hydra lists the groups of conf/train.yaml from the last to the first
    names.sort(key=lambda name: name not in PRESETS)
    return {name: hydra.runtime.choices[name] for name in names}


def _changed_choices(choices: Mapping[str, Any], before: Mapping[str, Any], *, nested: bool) -> dict[str, Any]:
    return {
        name: choice
        for name, choice in choices.items()
        if ("/" in name) == nested and choice is not None and choice != before.get(name)
    }


def _changed_options(before: Mapping[str, Any], after: Any, prefix: str = "") -> Iterator[str]:
    for name in {**after, **before}:
        old, new = before.get(name), after.get(name)
        if isinstance(new, dict) and new:
            yield from _changed_options(old if isinstance(old, dict) else {}, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}={format_value(new)}"
