"""Command-line arguments that several commands share, and the translator that they describe.

Modules that are slow to import, such as torch, are imported inside functions: ``heed --help`` needs none of them.
"""

import argparse
import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from heed.errors import HeedError
from heed.habits import in_heed
from heed.inference import BATCH_TOKENS, MAX_TOKENS
from heed.inference.searches import MBR, SAMPLE, SearchOptions
from heed.options import did_you_mean

if TYPE_CHECKING:
    from argparse import _ActionsContainer as Parser  # a parser or a group of its options

    from heed.inference.translator import Translator

TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("FILE", "DIR", "RUN"), Path),
    **dict.fromkeys(("N", "K"), int),
    **dict.fromkeys(("A", "P", "T"), float),
}
"""Types of values by their name in help texts; others are text."""


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


def add(parser: "Parser", name: str, value: str | None, help: str, **settings: Any) -> None:
    """Add an argument with a value. The help text ends with the default, if there is one.

    Args:
        value: the value's name in the help text, from which its type follows; None: its choices.
    """
    shown = f"{help} (default: %(default)s)" if settings.get("default") else help
    parser.add_argument(name, metavar=value, help=shown, **{"type": TYPES.get(value or "", str), **settings})


def add_flag(parser: "Parser", name: str, help: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def add_table_style(parser: "Parser") -> None:
    """Add ``--table``."""
    text = "print the table to paste it: %(choices)s"
    parser.add_argument("--table", choices=("markdown", "latex", "csv"), default="text", metavar="FORMAT", help=text)


def add_model_options(parser: "Parser", *, several: str = "", positional: bool = True, engine: bool = False) -> None:
    """Add the model, as RUN or ``--model RUN``, and the options of `add_batch_options`; see `load_translator`.

    Args:
        several: what several models are for. The value is then a list.
        positional: whether to add RUN. If not, the command itself looks for it among its arguments.
    """
    text = "run or model folder, or a copy of one"
    if positional:
        # A single one without a type, with which argparse would convert SUPPRESS.
        settings: dict[str, Any] = {"nargs": "?"}
        if several:
            settings = {"nargs": "*", "action": "extend", "type": Path}
        several_text = several and f"; several {several}"
        parser.add_argument("model", metavar="RUN", help=text + several_text, default=argparse.SUPPRESS, **settings)
    action = "append" if several else "store"
    add(parser, "--model", "RUN", f"the same as {'RUN' if positional else text}", action=action)
    add_batch_options(parser, engine=engine)


def add_batch_options(parser: "Parser", *, direction: bool = True, engine: bool = False) -> None:
    """Add the options for batch size, sentence length and device, and for the direction and the engine."""
    if direction:
        text = (
            "languages to translate from and to, such as de-en, or only the language to translate to, for a model of "
            "several directions (default: its first direction)"
        )
        parser.add_argument("--direction", "--to", metavar="SRC-TGT", help=text)
    add(parser, "--batch-tokens", "N", "padded source tokens per batch", default=BATCH_TOKENS)
    text = "maximum subwords per sentence; a longer sentence is an error"
    add(parser, "--max-tokens", "N", text, default=MAX_TOKENS)
    add(parser, "--device", "NAME", "cpu, cuda, cuda:1, mps (default: cuda if available, otherwise cpu)")
    if engine:
        text = (
            "what computes translations: heed's own code, or CTranslate2, which is faster and needs the extra export; "
            "auto is CTranslate2 on CPUs, where it is installed and has the model and the search"
        )
        add(parser, "--engine", None, text, choices=("auto", "heed", "ctranslate2"), default="auto")


def add_pair_options(parser: "Parser", *, words: str = "") -> None:
    """Add ``--src`` and ``--tgt``, files with sentence pairs. ``words`` says how words are written."""
    add(parser, "--src", "FILE", f"source sentences, one per line{words}", required=True)
    add(parser, "--tgt", "FILE", "their translations, one per line", required=True)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for beam search, sampling and minimum Bayes risk decoding; see `search_options`."""
    group = parser.add_argument_group("search", "By default, the search that the model was scored with after training.")
    add(group, "--beam", "K", "beam size; 1 is greedy search")
    text = "exponent of the length penalty; 0 is none, larger values favour longer translations"
    add(group, "--length-penalty", "A", text)
    add_flag(group, "--sample", "sample translations instead of beam search")
    text = f"sampling temperature; lower values favour likely subwords (default: {SAMPLE['temperature']:g})"
    add(group, "--temperature", "T", text)
    add(group, "--top-k", "K", "sample from the K likeliest subwords (default: all)")
    add(group, "--top-p", "P", "sample from the smallest set of subwords with total probability P (default: all)")
    add(group, "--seed", "N", f"random seed of sampling (default: {SAMPLE['seed']})")
    add_flag(group, "--mbr", "minimum Bayes risk decoding: choose the candidate most similar to the others (slow)")
    text = f"sampled candidates for --mbr, besides the K of --beam (default: {MBR['samples']})"
    add(group, "--samples", "N", text)
    add(group, "--utility", None, f"similarity metric for --mbr (default: {MBR['utility']})", choices=("chrf", "bleu"))


def search_options(args: argparse.Namespace) -> SearchOptions:
    """Return the values of the options of `add_search_options`."""
    return cast(SearchOptions, {name: getattr(args, name) for name in SearchOptions.__annotations__})


def load_translator(args: argparse.Namespace, *models: Path) -> "Translator":
    """Load ``models``, or those of ``--model``, with the options of the functions above."""
    from heed.kernels.cpu import keep_freed_memory

    keep_freed_memory()
    given = models or (args.model if isinstance(args.model, list) else [args.model] if args.model else [])
    named = [Path(each) for each in given]
    if not named:
        raise HeedError("No model is given: name the folder of a run (runs/NAME/TIME) or of a model.")
    options: dict[str, Any] = {
        name: getattr(args, name, None) for name in ("device", "direction", "batch_tokens", "max_tokens")
    }
    engine = getattr(args, "engine", "heed")
    if engine == "heed" or (engine == "auto" and find_spec("ctranslate2") is None):
        from heed.inference import loading

        return loading.load(*named, **options)
    from heed.export import to_ctranslate2

    search = {**search_options(args), "n_best": getattr(args, "n_best", None)} if hasattr(args, "beam") else {}
    return to_ctranslate2.load(*named, **options, required=engine == "ctranslate2", search=search)


def utf8_text(argument: str) -> str:
    """Return a command-line argument decoded as UTF-8 whatever the locale, for the ``type`` of `add_argument`."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{argument!a} is not UTF-8") from error
