"""What the commands share. Imports that cost a second wait until a command runs."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from heed.errors import HeedError

if TYPE_CHECKING:
    from heed.translator import Translator

Result = TypeVar("Result")

LINES_AT_ONCE = 1000
"""How many input lines are in memory at a time, and are sorted by length for batching."""


@dataclass(frozen=True)
class Command:
    """One subcommand: its name, its line in ``heed --help``, its options, and what it does."""

    name: str
    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, type=Path, metavar="DIR", help="a run, its model folder, or a copy")
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, metavar="N", help="padded source tokens in a batch (%(default)s)"
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps (the GPU where there is one)")


def add_search_options(parser: argparse.ArgumentParser) -> None:
    saved = "as the model was scored"
    parser.add_argument("--beam", type=int, metavar="K", help=f"hypotheses kept, 1 is greedy search ({saved})")
    parser.add_argument(
        "--length-penalty", type=float, metavar="A", help=f"0 is none, more favours longer translations ({saved})"
    )


def load_translator(args: argparse.Namespace, **search: int | float | None) -> "Translator":
    """The translator that the model options describe; ``search`` overrides its saved settings where not None."""
    import torch

    from heed.decoding import BeamSearch
    from heed.model_folder import load
    from heed.translator import Translator

    folder = load(args.model)
    settings = search_settings(folder.config.get("search"))
    settings.update({name: value for name, value in search.items() if value is not None})
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model = folder.model.to(device)
    except RuntimeError as error:
        raise HeedError(f"--device {device} cannot be used: {str(error).splitlines()[0]}") from error
    return Translator(model, folder.tokenizer, BeamSearch(**settings), batch_tokens=args.batch_tokens)


def search_settings(saved: Mapping[str, Any] | None) -> dict[str, Any]:
    """BeamSearch's settings as a model folder's ``search`` section gives them, else those of conf/search/beam.yaml."""
    standard = {"beam": 5, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 2.0, "max_length_extra": 10}
    if saved is None:
        return standard
    # A folder is data and its `_target_` is never imported: a section without a beam is greedy search.
    known = {name: saved[name] for name in standard if name in saved}
    return {**standard, "beam": 1, **known, "n_best": 1}


def read_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    r"""The lines of a UTF-8 stream without their ends (\n or \r\n); what is not UTF-8 is refused by line."""
    for number, line in enumerate(stream, start=1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise HeedError(
                f"Line {number} of {name} is not UTF-8 ({error.reason} at byte {error.start + 1}): "
                "convert the text, for example with `iconv -f LATIN1 -t UTF-8`."
            ) from error


def write_lines(lines: Iterable[str]) -> None:
    """Print lines as UTF-8, each as soon as it is there."""
    for line in lines:
        sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.buffer.flush()


def with_progress(results: Iterable[Result]) -> Iterator[Result]:
    """The same results, counted on stderr where someone watches a long run."""
    watched = sys.stderr.isatty() and not sys.stdin.isatty() and not sys.stdout.isatty()
    done = 0
    for done, result in enumerate(results, start=1):
        yield result
        if watched and done % LINES_AT_ONCE == 0:
            print(f"\r{done:,} lines", end="", file=sys.stderr, flush=True)
    if watched and done >= LINES_AT_ONCE:
        print(f"\r{done:,} lines", file=sys.stderr)
