"""The training options and presets: conf/ gives default and reason, the constructor of a file type and range."""

import re
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from hydra.utils import get_object

from docs.figures import markdown_table
from heed.launch.compose import Schema
from heed.options import argument_types, describe_type

CONF = Path(__file__).resolve().parents[2] / "conf"
ORDER = ("data", "tokenizer", "model", "module", "batching", "optimizer", "schedule", "search", "trainer", "callbacks")
"""The first groups of the page. All other groups follow, and then AUTOMATIC."""
URL = "https://github.com/heed-nmt/heed/blob/main/conf/experiment"
"""The folder of the presets."""
OWN_PAGE = ("experiment", "hydra")
"""Groups that a section of their own or Hydra describes."""
AUTOMATIC = ("data_training", "data_model", "data_optimizer", "data_positions", "data_schedule")
"""Groups whose files are chosen by the corpus, not by users."""
KEY = re.compile(r"(?P<indent> *)(?P<key>[\w./=]+):(?: +(?P<value>.*?))?(?: +# (?P<comment>.*))?$")
"""A line of a file that sets an option."""


@dataclass
class Option:
    """An option of a file."""

    name: str
    """Dotted, relative to the file's group."""
    default: str
    reason: str


@dataclass
class ConfigFile:
    """A file of conf/: its description, its options, and the constructors that it names."""

    description: str
    package: str | None = None
    """The mapping that its options are in; None: named like the folder."""
    options: list[Option] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    """Files of the same folder that it starts from."""
    overrides: list[tuple[str, str]] = field(default_factory=list)
    """(group, choice) that it sets."""
    targets: dict[str, str] = field(default_factory=dict)
    """The constructor of the options under a prefix; "" for the file itself."""


@dataclass
class Parent:
    """A mapping inside a file, whose comment describes its first option, too."""

    indent: int
    key: str
    reason: str

    def take(self) -> str:
        """Return the comment the first time, then nothing."""
        reason, self.reason = self.reason, ""
        return reason


# ---- reading conf/


@cache
def read(path: Path) -> ConfigFile:
    """Read a file of conf/ with its comments."""
    text = path.read_text(encoding="utf-8")
    first, *rest = text.splitlines()
    package = first.removeprefix("# @package ") if first.startswith("# @package ") else None
    lines = [first, *rest] if package is None else rest
    intro = list(takewhile(lambda line: line.startswith("#"), lines))
    file = ConfigFile(description=_join(intro), package=package)
    for entry in (yaml.safe_load(text) or {}).get("defaults", []):
        if isinstance(entry, str) and entry not in ("_self_", "schema"):
            file.parents.append(entry)
        elif isinstance(entry, dict):
            file.overrides += [(group.removeprefix("override ").lstrip("/"), str(c)) for group, c in entry.items()]
    above: list[str] = []  # comment lines above the next option
    parents: list[Parent] = []  # the mappings around it
    for line in lines[len(intro) :]:
        if line.lstrip().startswith("#"):
            above.append(line)
            continue
        match = KEY.match(line)
        if not match:
            above = []
            continue
        indent, key, value = len(match["indent"]), match["key"], match["value"] or ""
        parents = [parent for parent in parents if parent.indent < indent]
        prefix = ".".join(parent.key for parent in parents)
        reason = " ".join(filter(None, [_join(above), match["comment"] or ""]))
        above = []
        if key == "_target_":
            file.targets[prefix] = value
        elif not value or value.startswith("#"):
            parents.append(Parent(indent, key, reason))
        elif prefix.split(".")[0] not in ("defaults", "hydra") and not key.startswith("_"):
            name = f"{prefix}.{key}".lstrip(".")
            file.options.append(Option(name, value, " ".join(filter(None, [*map(Parent.take, parents), reason]))))
    return file


def _join(comments: list[str]) -> str:
    return " ".join(line.strip().removeprefix("#").strip() for line in comments)


# ---- types


def hint(path: Path, option: str) -> Any:
    """Return the type of an option with its range, from the constructor's signature; None if it is not known."""
    prefix, _, name = option.rpartition(".")
    target = _target(path, prefix)
    return _hints(target).get(name) if target else get_type_hints(Schema).get(option)


def allowed(path: Path, option: str) -> str:
    """Return the type and range of an option in words; "" if it is not known."""
    known = hint(path, option)
    return describe_type(known) if known not in (None, Any) else ""


def _or_auto(option: Option, types: str) -> str:
    """Add that an option may be auto, if its constructor does not know that: see conf/auto.yaml."""
    return f"{types} or auto" if option.default == "auto" and types and "auto" not in types.split() else types


def _target(path: Path, prefix: str) -> str | None:
    """Return the constructor of the options under a prefix: of the file, or of a file that it starts from."""
    file = read(path)
    if prefix == "sweep":
        return "heed.sweep.plan.SweepSettings"
    if prefix in file.targets:
        return file.targets[prefix]
    for parent in file.parents:
        if (path.parent / f"{parent}.yaml").exists() and (target := _target(path.parent / f"{parent}.yaml", prefix)):
            return target
    return None


@cache
def _hints(target: str) -> dict[str, Any]:
    """Return the types of a constructor's arguments by name."""
    constructor = get_object(target)
    fields = get_type_hints(constructor, include_extras=True) if is_dataclass(constructor) else {}
    return {**fields, **argument_types(constructor)}


# ---- Markdown


def presets() -> str:
    """Return a table of the files of conf/experiment: the command, and what the file is for."""
    rows = []
    for path in sorted((CONF / "experiment").glob("*.yaml")):
        command = ["heed train", *["-m"] * bool(_grid(path)), f"experiment={path.stem}", *_required_options(path)]
        rows.append([f"`{' '.join(command)}`", f"{escape(read(path).description)} [File]({URL}/{path.name})"])
    return markdown_table(["command", "what it trains"], rows)


def _grid(path: Path) -> dict[str, str]:
    """Return the options that a preset varies, with their values, also those of the files that it starts from."""
    found: dict[str, str] = {}
    for parent in read(path).parents:
        found |= _grid(path.with_stem(parent))
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {**found, **content.get("hydra", {}).get("sweeper", {}).get("params", {})}


def _required_options(path: Path) -> list[str]:
    """Return the options that the corpus of a preset requires, such as ``data.root=DIR``."""
    file = read(path)
    if (corpus := dict(file.overrides).get("data")) is None:
        return [option for parent in file.parents for option in _required_options(path.with_stem(parent))]
    options = read(CONF / "data" / f"{corpus}.yaml").options
    return [f"data.{option.name}=DIR" for option in options if option.reason.startswith("required: DIR")]


def _parents(file: ConfigFile) -> list[str]:
    return [f"Starts from {', '.join(f'`{parent}`' for parent in file.parents)}."] if file.parents else []


def markdown() -> str:
    """Return a section for the root and for each group of conf/, with a table for each of its files."""
    parts = ["## General", *_tables(CONF / "train.yaml", "")]
    for folder in groups():
        name = folder.relative_to(CONF).as_posix()
        parts.append(f"## {name}")
        default = default_choice(name)
        files = sorted(folder.glob("*.yaml"), key=lambda file: (file.stem != default, _depth(file), file.stem))
        for file in files:
            title = f"conf/{name}/{file.name}" if name in AUTOMATIC else f"`{name}={file.stem}`"
            parts += [f"### {title}{' (default)' if file.stem == default else ''}", *_tables(file, name)]
    return "\n\n".join(parts)


def groups() -> list[Path]:
    """Return the folders of options, in the order of the page."""

    def position(folder: Path) -> tuple[bool, int, Path]:
        first = folder.relative_to(CONF).parts[0]
        return first in AUTOMATIC, ORDER.index(first) if first in ORDER else len(ORDER), folder

    folders = {file.parent for file in CONF.glob("**/*.yaml")} - {CONF}
    return sorted((folder for folder in folders if folder.relative_to(CONF).parts[0] not in OWN_PAGE), key=position)


def default_choice(group: str) -> str | None:
    """Return the file of a group that is used if none is chosen."""
    parent, _, name = group.rpartition("/")
    chosen = dict(read(CONF / "train.yaml").overrides)
    if not parent:
        return chosen.get(name)
    files = sorted((CONF / parent).glob("*.yaml"), key=lambda file: file.stem != chosen.get(parent))
    return next((choices[name] for file in files if name in (choices := dict(read(file).overrides))), None)


def _depth(file: Path) -> int:
    """Return how many files a file starts from, so that a base precedes its variants."""
    parents = [file.parent / f"{parent}.yaml" for parent in read(file).parents]
    return 1 + max(map(_depth, filter(Path.exists, parents)), default=0)


def _tables(path: Path, group: str) -> list[str]:
    """Return the description of a file and the table of its options."""
    file = read(path)
    parts = [*([escape(file.description)] if file.description else []), *_parents(file)]
    package = (group.replace("/", ".") if file.package is None else file.package).replace("_global_", "")
    rows = [
        [
            f"`{f'{package}.{option.name}'.lstrip('.')}`",
            f"`{option.default}`",
            escape(_or_auto(option, allowed(path, option.name))),
            escape(option.reason),
        ]
        for option in file.options
    ]
    if rows:
        parts.append(markdown_table(["option", "default", "allowed", "meaning"], rows))
    return parts


def escape(text: str) -> str:
    """Return text without the characters that mean something else in a cell of a Markdown table."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece.replace("|", "\\|") if piece.startswith("`") else _escape_prose(piece) for piece in pieces)


def _escape_prose(text: str) -> str:
    for mark, written in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("[[", "\\[["), ("_", "\\_")):
        text = text.replace(mark, written)
    return text
