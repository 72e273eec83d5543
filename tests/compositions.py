"""Hydra composes the same groups of conf/ once in a process: tests compose hundreds of times, mostly the same.

Hydra finds the files from the chosen groups, merges them, and applies the options. What it has read is kept for each
file, and what it has merged for each choice of groups, unless a file is the user's.
"""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

from hydra._internal import config_loader_impl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.defaults_list import DefaultsList, Overrides
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig

from heed.files import CONF

SOURCES = {f"file://{CONF}", "pkg://hydra.conf", "structured://"}


@dataclass
class _Composition:
    found: DefaultsList
    merged: bytes = b""
    """Pickled: a copy by pickle takes a quarter of the time of deepcopy."""


def keep_compositions() -> None:
    """Keep what is composed from now on in this process."""
    find, loader = config_loader_impl.create_defaults_list, config_loader_impl.ConfigLoaderImpl
    merge, read = loader._compose_config_from_defaults_list, ConfigRepository.load_config
    files: dict[str, ConfigResult | None] = {}
    kept: dict[tuple[Any, ...], _Composition] = {}
    of_files: dict[int, _Composition] = {}  # by the id of a list of files, which `kept` keeps alive

    def find_once(repo: Any, config_name: Any, overrides_list: Any, **settings: Any) -> DefaultsList:
        if not _is_heeds(repo):
            return find(repo, config_name, overrides_list, **settings)
        options = Overrides(repo=repo, overrides_list=overrides_list).config_overrides
        groups = [override.input_line for override in overrides_list if override not in options]
        key = (config_name, *groups, *settings.items())
        if key not in kept:
            kept[key] = _Composition(find(repo, config_name, overrides_list, **settings))
            of_files[id(kept[key].found.defaults)] = kept[key]
        found = copy.copy(kept[key].found)
        found.config_overrides = options
        return found

    def merge_once(self: Any, defaults: Any, repo: Any) -> DictConfig:
        if (composition := of_files.get(id(defaults))) is None:
            return merge(self, defaults, repo)
        composition.merged = composition.merged or pickle.dumps(merge(self, defaults, repo))
        merged: DictConfig = pickle.loads(composition.merged)
        return merged

    def read_once(self: ConfigRepository, config_path: str) -> ConfigResult | None:
        if not _is_heeds(self):
            return read(self, config_path)
        if config_path not in files:
            files[config_path] = read(self, config_path)
        return copy.deepcopy(files[config_path])

    ConfigRepository.load_config = read_once
    config_loader_impl.create_defaults_list = find_once
    loader._compose_config_from_defaults_list = merge_once


def _is_heeds(repository: Any) -> bool:
    """Return whether all files of a repository are those of heed and Hydra."""
    return not {f"{source.scheme()}://{source.path}" for source in repository.get_sources()} - SOURCES
