"""Command-line arguments, those of arguments.toml among them, and the translator that they describe.

Modules that are slow to import, such as torch, are imported inside functions: ``heed --help`` needs none of them.
"""

import argparse
import os
import re
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from heed.errors import HeedError
from heed.exchange import QUANTIZATIONS, TARGETS
from heed.inference import BATCH_TOKENS, MAX_TOKENS
from heed.inference.searches import DEFAULTS, SearchOptions
from heed.options import did_you_mean, in_heed

if TYPE_CHECKING:
    from argparse import _ActionsContainer as Parser  # a parser or a group of its options

    from heed.inference.translator import Translator


def utf8_text(argument: str) -> str:
    """Return a command-line argument decoded as UTF-8 whatever the locale, for the ``type`` of `add_argument`."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{argument!a} is not UTF-8") from error


TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("FILE", "DIR", "RUN", "RUN|CKPT", "STUDY"), Path),
    **dict.fromkeys(("N", "K"), int),
    **dict.fromkeys(("A", "P", "T"), float),
    **dict.fromkeys(("SENTENCE", "RUN|SENTENCE", "TEXT", "WORDS"), utf8_text),
}
"""Types of values by their name in help texts; others are text."""

VALUES: Mapping[str, Any] = {
    **DEFAULTS["mbr"],
    "batch_tokens": BATCH_TOKENS,
    "max_tokens": MAX_TOKENS,
    "targets": tuple(TARGETS),
    "quantizations": tuple(dict.fromkeys(TARGETS["page"] + QUANTIZATIONS)),
}
"""What arguments.toml names in braces and as choices."""

ARGUMENTS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class CommandParser(argparse.ArgumentParser):
    """Reports wrong arguments in one line, with heed's word for a flag of another tool."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self._subparsers:  # of a subcommand: before missing arguments are reported
            for flag in (word.partition("=")[0] for word in args):
                is_flag = re.fullmatch(rf"[{self.prefix_chars}]+[a-zA-Z][\w-]*", flag)
                if is_flag and not any(known.startswith(flag) for known in self._option_string_actions):
                    self.error(f"{flag} is unknown{self._suggest(flag)}")
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"{unknown[0]} is one argument too many")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}: `{self.prog} --help` shows the arguments.\n")

    def _suggest(self, flag: str) -> str:
        name = flag.lstrip("-").replace("-", "_")
        arguments = {action.dest: action for action in self._actions}
        if own := name if name in arguments else in_heed(name, section="flags", known=arguments):
            flags = arguments[own].option_strings
            return f" (in heed: {flags[0] if flags else f'{arguments[own].metavar}, without a flag'})"
        return did_you_mean(name, [own for own, action in arguments.items() if action.option_strings], "--")


def add(parser: "Parser", section: str) -> None:
    """Add the arguments of a section of arguments.toml."""
    about = ("summary", "function", "parser", "group", "exclusive")
    entries = {usage: entry for usage, entry in ARGUMENTS[section].items() if usage not in about}
    if description := ARGUMENTS[section].get("group"):
        parser = parser.add_argument_group(section, description)
    if "exclusive" in ARGUMENTS[section]:
        parser = parser.add_mutually_exclusive_group()
    for usage, entry in entries.items():
        if not entry:
            add(parser, usage)
            continue
        given = {"help": entry} if isinstance(entry, str) else entry
        settings: dict[str, Any] = {
            name: value.format(**VALUES) if isinstance(value, str) else value for name, value in given.items()
        }
        names = usage.split()
        if len(names) > 1:
            value = names.pop()
            settings = {"metavar": value, "type": TYPES.get(value, str), **settings}
        elif "choices" not in settings:
            settings["action"] = "store_true"
        if isinstance(name := settings.get("choices"), str):
            settings["choices"] = VALUES[name]
        if isinstance(words := settings.get("metavar"), list):
            settings["metavar"] = tuple(words)
        if settings.get("default") == argparse.SUPPRESS:  # argparse compares identities
            settings["default"] = argparse.SUPPRESS
        parser.add_argument(*names, **settings)


def search_options(args: argparse.Namespace) -> SearchOptions:
    """Return the values of the section ``search``."""
    return cast(SearchOptions, {name: getattr(args, name) for name in SearchOptions.__annotations__})


def load_translator(args: argparse.Namespace, *models: Path) -> "Translator":
    """Load ``models``, or those of ``--model``, with the other options."""
    from heed.inference.model_folder import exported_from, is_export
    from heed.kernels.choice import keep_freed_memory

    keep_freed_memory()
    given = models or (args.model if isinstance(args.model, list) else [args.model] if args.model else [])
    named = [Path(each) for each in given]
    if not named:
        raise HeedError("No model is given: name the folder of a run (runs/NAME/TIME) or of a model.")
    options: dict[str, Any] = {
        name: getattr(args, name, None) for name in ("device", "direction", "batch_tokens", "max_tokens")
    }
    is_constrained = any(getattr(args, name, None) for name in ("prefix", "prefix_file", "terms"))
    engine = getattr(args, "engine", "heed")
    if export := next(filter(is_export, named), None):
        if getattr(args, "engine", "auto") == "heed":
            raise HeedError(f"{export} is an export for CTranslate2: give {exported_from(export)} for --engine heed.")
        engine = "ctranslate2"
    elif is_constrained:
        if engine == "ctranslate2":
            raise HeedError("--prefix, --prefix-file and --terms need heed's own engine: leave out --engine.")
        engine = "heed"
    tag = getattr(args, "tag", None)
    if engine == "heed" or (engine == "auto" and find_spec("ctranslate2") is None):
        from heed.inference import loading

        return loading.load(*named, **options).with_tag(tag)
    from heed.exchange import to_ctranslate2

    search = {**search_options(args), "n_best": getattr(args, "n_best", None)} if hasattr(args, "beam") else {}
    return to_ctranslate2.load(*named, **options, required=engine == "ctranslate2", search=search).with_tag(tag)
