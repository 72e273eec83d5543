"""Command-line arguments that several commands share, and the translator that they describe.

Modules that are slow to import, such as torch, are imported inside functions: ``heed --help`` needs none of them.
"""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from heed.inference import BATCH_TOKENS, MAX_TOKENS
from heed.inference.searches import MBR, SAMPLE

if TYPE_CHECKING:
    from heed.inference.searches import SearchOptions
    from heed.inference.translator import Translator


@dataclass(frozen=True)
class Command:
    """A subcommand of ``heed``."""

    name: str
    summary: str
    """One sentence for ``heed --help`` and for the command's own help."""
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    parser_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of its `argparse.ArgumentParser`."""


def add_model_options(parser: argparse.ArgumentParser, *, required: bool = True, several: bool = False) -> None:
    """Add ``--model`` and the options of `add_batch_options`.

    Args:
        several: the option may be repeated for an ensemble; its value is a list.
    """
    parser.add_argument(
        "--model",
        required=required,
        type=Path,
        action="append" if several else "store",
        metavar="DIR",
        help="run or model folder, or a copy of one" + ("; repeat the option for an ensemble" if several else ""),
    )
    add_batch_options(parser)


def add_batch_options(parser: argparse.ArgumentParser, *, direction: bool = True) -> None:
    """Add the options for batch size, sentence length and device, and for the direction."""
    if direction:
        parser.add_argument(
            "--direction",
            "--to",
            metavar="SRC-TGT",
            help="languages to translate from and to, such as de-en, or only the language to translate to, for a model "
            "of several directions (default: its first direction)",
        )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=BATCH_TOKENS,
        metavar="N",
        help="padded source tokens per batch (default: %(default)s)",
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="maximum subwords per sentence; a longer sentence is an error (default: %(default)s)",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="cpu, cuda, cuda:1, mps (default: cuda if available, otherwise cpu)"
    )


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for beam search, sampling and minimum Bayes risk decoding; see `search_changes`."""
    group = parser.add_argument_group("search", "By default, the search that the model was scored with after training.")
    group.add_argument("--beam", type=int, metavar="K", help="beam size; 1 is greedy search")
    group.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="exponent of the length penalty; 0 is none, larger values favour longer translations",
    )
    group.add_argument("--sample", action="store_true", help="sample translations instead of beam search")
    group.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help=f"sampling temperature; lower values favour likely subwords (default: {SAMPLE['temperature']:g})",
    )
    group.add_argument("--top-k", type=int, metavar="K", help="sample from the K likeliest subwords (default: all)")
    group.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="sample from the smallest set of subwords with total probability P (default: all)",
    )
    group.add_argument("--seed", type=int, metavar="N", help=f"random seed of sampling (default: {SAMPLE['seed']})")
    group.add_argument(
        "--mbr",
        action="store_true",
        help="minimum Bayes risk decoding: choose the candidate most similar to the others (slow)",
    )
    group.add_argument(
        "--samples",
        type=int,
        metavar="N",
        help=f"sampled candidates for --mbr, besides the K of --beam (default: {MBR['samples']})",
    )
    group.add_argument(
        "--utility", choices=("chrf", "bleu"), help=f"similarity metric for --mbr (default: {MBR['utility']})"
    )


def search_options(args: argparse.Namespace) -> "SearchOptions":
    """Return the values of the options of `add_search_options`."""
    names = ("beam", "length_penalty", "sample", "temperature", "top_k", "top_p", "seed", "mbr", "samples", "utility")
    options: Any = {name: getattr(args, name) for name in names}
    return cast("SearchOptions", options)


def add_engine_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--engine``."""
    parser.add_argument(
        "--engine",
        choices=("heed", "ctranslate2"),
        default="heed",
        help="what computes translations: heed's own code, or CTranslate2, which is faster and holds most "
        "transformers; the model is exported once, into its folder (needs the extra export; default: %(default)s)",
    )


def load_translator(args: argparse.Namespace) -> "Translator":
    """Load the model or ensemble of ``--model``, with the options of `add_batch_options` and of `add_engine_option`."""
    from heed.kernels.allocator import keep_freed_memory

    keep_freed_memory()
    paths = args.model if isinstance(args.model, list) else [args.model]
    return engine_loader(args)(*paths, direction=args.direction)


def engine_loader(args: argparse.Namespace) -> "Callable[..., Translator]":
    """Return the function that loads a translator from folders, with the options that do not name a model."""
    if getattr(args, "engine", "heed") == "ctranslate2":
        from heed.export.ctranslate2_loading import load
    else:
        from heed.inference.loading import load
    return partial(load, device=args.device, batch_tokens=args.batch_tokens, max_tokens=args.max_tokens)


def utf8_text(argument: str) -> str:
    """Return a command-line argument decoded as UTF-8 whatever the locale, for the ``type`` of `add_argument`."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{argument!a} is not UTF-8") from error
