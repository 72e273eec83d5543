"""Write the winner of a study as a preset, ``experiment=NAME``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from heed.files import replacing, writing
from heed.launch import program

LEFT_OUT = ("name", "seed", "test", "logger", "resume", "experiment", "sweep")
"""Options that belong to a run, not to a recipe."""
MARK = "# Written by a search: "


def preset_text(cfg: Any, differences: Sequence[str], *, reasons: Mapping[str, str], headline: str) -> str:
    """Return the YAML of a preset with the differences of a configuration from the defaults.

    Args:
        cfg: Hydra's DictConfig of the run.
        differences: as `heed.launch.compose.find_differences` returns them.
        reasons: a comment for each option that was searched.
        headline: where the preset comes from.
    """
    choices = []
    tree: dict[str, Any] = {}
    for name, _, choice in (word.partition("=") for word in differences):
        comment = f" # {reasons[name]}" if name in reasons else ""
        *parents, last = name.split(".")
        if [*parents, last][0] in LEFT_OUT:
            continue
        if (program.CONF / name).is_dir():
            choices.append(f"  - override /{name}: {choice}{comment}")
            continue
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        value = OmegaConf.select(cfg, name)
        value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
        node[last] = text.removesuffix("...\n").strip() + comment
    defaults = ["defaults:", *choices] if choices else []
    return "\n".join(["# @package _global_", f"{MARK}{headline}", *defaults, *_lines(tree)]) + "\n"


def write_preset(text: str, name: str) -> tuple[Path, list[str]]:
    """Write a preset to ``conf/experiment``, and return its path and the command that trains it.

    The folder is that of the checkout or, elsewhere, of the working directory; then the command has ``--config-dir``. A
    preset that a user wrote is not replaced: the new one gets another name.
    """
    folder = Path("conf/experiment")
    path, number = folder / f"{name}.yaml", 1
    while path.exists() and MARK not in path.read_text(encoding="utf-8"):
        number += 1
        path = folder / f"{name}_{number}.yaml"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    config_dir = [] if program.CONF.parent == Path.cwd() else ["--config-dir", "conf"]
    return path, [*program.command(), *config_dir, f"experiment={path.stem}"]


def _lines(tree: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of nested mappings whose leaves are YAML."""
    for name, node in tree.items():
        if isinstance(node, str):
            yield f"{indent}{name}: {node}"
        else:
            yield f"{indent}{name}:"
            yield from _lines(node, indent + "  ")
