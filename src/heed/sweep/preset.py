"""Write the winner of a study as a preset, ``experiment=NAME``."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from heed.files import replacing, writing
from heed.launch import program

LEFT_OUT = ("name", "seed", "test", "logger", "resume")
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
    names = [word.partition("=")[0] for word in differences]
    names = [name for name in names if name.split(".")[0] not in LEFT_OUT and name not in ("experiment", "sweep")]
    groups = {name: word.partition("=")[2] for name, word in _by_name(differences).items() if _is_group(name)}
    lines = ["# @package _global_", f"{MARK}{headline}"]
    if chosen := [name for name in names if name in groups]:
        lines += ["defaults:", *(f"  - override /{name}: {groups[name]}{_comment(reasons, name)}" for name in chosen)]
    tree: dict[str, Any] = {}
    for name in (name for name in names if name not in groups):
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = _Leaf(OmegaConf.select(cfg, name), _comment(reasons, name))
    return "\n".join([*lines, *_tree_lines(tree, "")]) + "\n"


def write_preset(text: str, name: str) -> tuple[Path, list[str]]:
    """Write a preset to ``conf/experiment``, and return its path and the command that trains it.

    The folder is that of the checkout or, elsewhere, of the working directory; then the command has ``--config-dir``. A
    preset that a user wrote is not replaced: the new one gets another name.
    """
    is_checkout = program.CONF.parent == Path.cwd()
    folder = Path("conf/experiment")
    path, number = folder / f"{name}.yaml", 1
    while path.exists() and MARK not in path.read_text(encoding="utf-8"):
        number += 1
        path = folder / f"{name}_{number}.yaml"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_text(text, encoding="utf-8")
    config_dir = [] if is_checkout else ["--config-dir", "conf"]
    return path, [*program.command(), *config_dir, f"experiment={path.stem}"]


def command_line(words: Sequence[str]) -> str:
    """Return words as a shell command."""
    return shlex.join(words)


class _Leaf:
    def __init__(self, value: Any, comment: str) -> None:
        self.value, self.comment = value, comment


def _tree_lines(tree: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for name, node in tree.items():
        if isinstance(node, _Leaf):
            value = OmegaConf.to_container(node.value) if OmegaConf.is_config(node.value) else node.value
            text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
            lines.append(f"{indent}{name}: {text.removesuffix('...' + chr(10)).strip()}{node.comment}")
        else:
            lines += [f"{indent}{name}:", *_tree_lines(node, indent + "  ")]
    return lines


def _comment(reasons: Mapping[str, str], name: str) -> str:
    return f" # {reasons[name]}" if name in reasons else ""


def _by_name(differences: Sequence[str]) -> dict[str, str]:
    return {word.partition("=")[0]: word for word in differences}


def _is_group(name: str) -> bool:
    return (program.CONF / name).is_dir()
