"""What the commands share. Imports that cost a second wait until a command runs."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from heed.errors import HeedError
from heed.files import decompressor, writing

if TYPE_CHECKING:
    import torch

    from heed.decoding import Search
    from heed.inference.model_folder import ModelFolder
    from heed.inference.translator import Translator

Result = TypeVar("Result")

LENGTH_LIMIT = {"max_length_factor": 2.0, "max_length_extra": 10}
BEAM = {"beam": 5, "length_penalty": 0.6, "n_best": 1, **LENGTH_LIMIT}
"""BeamSearch's settings of conf/search/beam.yaml, for models that come without."""
SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1, "n_best": 1, **LENGTH_LIMIT}
"""SampleSearch's of conf/search/sample.yaml, likewise."""
MBR = {**BEAM, **SAMPLING, "utility": "chrf", "samples": 32}
"""MBRSearch's of conf/search/mbr.yaml, likewise."""

LINES_AT_ONCE = 1000
"""How many input lines are in memory at a time, and are sorted by length for batching."""

LINE_BYTES = 100_000
"""The longest line that is read: more is no sentence, but a file of another kind, or one without line ends."""

MAX_TOKENS = 1024
"""Subwords of a sentence by default: of one with as many a small model's translation takes seconds."""


@dataclass(frozen=True)
class Command:
    """One subcommand: its name, its line in ``heed --help``, its options, and what it does."""

    name: str
    summary: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def add_model_options(parser: argparse.ArgumentParser, *, required: bool = True, several: bool = False) -> None:
    """``several``: the option may be repeated, for an ensemble, and ``model`` is a list."""
    again = "; again: the ensemble of all named" if several else ""
    parser.add_argument(
        "--model",
        required=required,
        type=Path,
        action="append" if several else "store",
        metavar="DIR",
        help=f"a run, its model folder, or a copy{again}",
    )
    add_batch_options(parser)


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    """Where a model runs, and on how much at a time."""
    parser.add_argument(
        "--batch-tokens", type=int, default=4096, metavar="N", help="padded source tokens in a batch (%(default)s)"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="subwords a sentence may have: a longer one is refused (%(default)s)",
    )
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps (the GPU where there is one)")


def add_search_options(parser: argparse.ArgumentParser) -> None:
    saved = "as the model was scored"
    parser.add_argument("--beam", type=int, metavar="K", help=f"hypotheses kept, 1 is greedy search ({saved})")
    parser.add_argument(
        "--length-penalty", type=float, metavar="A", help=f"0 is none, more favours longer translations ({saved})"
    )
    parser.add_argument("--sample", action="store_true", help="draw translations as the model's probabilities say")
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="of a draw: below 1 likely words get likelier (1)"
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest subwords only (all)")
    parser.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the likeliest subwords that hold the share P only (all)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="the same number gives the same draws (1)")
    parser.add_argument(
        "--mbr", action="store_true", help="take the candidate most like all others: minimum Bayes risk (slow)"
    )
    parser.add_argument(
        "--samples", type=int, metavar="N", help="draws that are its candidates, beside the K of --beam; 0: none (32)"
    )
    parser.add_argument("--utility", choices=("chrf", "bleu"), help="what it calls alike (chrf)")


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_search_options` was told, for `load_translator`."""
    names = ("beam", "length_penalty", "sample", "temperature", "top_k", "top_p", "seed", "mbr", "samples", "utility")
    return {name: getattr(args, name) for name in names}


def load_translator(args: argparse.Namespace, **search: Any) -> "Translator":
    """The translator that the model options describe; ``search`` goes to `build_search`."""
    find_device(args.device)  # before the models are read
    return build_translator(load_models(args.model), args, **search)


def load_models(paths: Path | Sequence[Path]) -> "ModelFolder":
    """A model folder; several as one, whose model is their ensemble and whose search and languages are the first's."""
    from heed.inference.model_folder import load
    from heed.models.ensemble import Ensemble

    first, *others = [paths] if isinstance(paths, Path) else paths
    folder = load(first)
    if not others:
        return folder
    members = [folder.model]
    for path in others:
        other = load(path)
        if other.tokenizer.hash != folder.tokenizer.hash:
            raise HeedError(
                f"{first} and {path} have different vocabularies, so that their probabilities cannot be averaged: an "
                "ensemble's models are trained on the same data with the same settings of tokenizer."
            )
        members.append(other.model)
    return replace(folder, model=Ensemble(members))


def build_translator(folder: "ModelFolder", args: argparse.Namespace, **search: Any) -> "Translator":
    """`load_translator` for a model folder that is loaded already."""
    from heed.inference.translator import Translator
    from heed.kernels.allocator import keep_freed_memory

    keep_freed_memory()
    chosen = build_search(folder.config.get("search"), **search)
    return Translator(
        folder.model.to(find_device(args.device)),
        folder.tokenizer,
        chosen,
        batch_tokens=args.batch_tokens,
        max_tokens=args.max_tokens,
        packed=True,
    )


def find_device(name: str | None) -> "torch.device":
    """The device of that name, after a first computation on it; without a name the GPU where there is one."""
    import torch

    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).add(1).item()
    # What torch raises differs from device to device: those it was not built for, and "meta", which computes nothing.
    except (RuntimeError, AssertionError, ValueError, TypeError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0][:200]
        raise HeedError(f"--device {name} cannot be used: {reason}.") from error
    return device


def build_search(
    saved: Mapping[str, Any] | None, *, sample: bool = False, mbr: bool = False, **changes: int | float | str | None
) -> "Search":
    """The search of a model folder's ``search`` section, or one of the kind asked for, with these changes."""
    from heed.decoding import BeamSearch, SampleSearch
    from heed.inference.mbr import MBRSearch
    from heed.options import check, shown

    if not isinstance(saved, Mapping | None):
        raise HeedError(f"The model's search={shown(saved)} must be a mapping: mend its config.yaml, or copy it again.")
    if sample and mbr:
        raise HeedError("--sample draws and --mbr chooses: leave one of them out.")
    changes = {name: value for name, value in changes.items() if value is not None}
    if not sample and not mbr and "beam" not in changes:
        mbr = "utility" in (saved or {})
        sample = "temperature" in (saved or {}) and not mbr
    settings = search_settings(saved, sample=sample, mbr=mbr)
    for name in changes:
        if name not in settings:
            if name in SAMPLING:
                wrong = "sampling: add --sample"
            elif name in BEAM:
                wrong = "beam search and --sample draws: leave one of them out"
            else:
                wrong = "minimum Bayes risk: add --mbr"
            raise HeedError(f"--{name.replace('_', '-')} is for {wrong}.")
    settings.update(changes)
    kind = MBRSearch if mbr else SampleSearch if sample else BeamSearch
    check(kind, settings, where="search.")  # a folder's settings may be of any type
    return kind(**settings)


def search_settings(saved: Mapping[str, Any] | None, *, sample: bool = False, mbr: bool = False) -> dict[str, Any]:
    """What BeamSearch, or SampleSearch or MBRSearch, takes of a model folder's ``search`` section."""
    standard: dict[str, Any] = MBR if mbr else SAMPLING if sample else BEAM
    if saved is None:
        return dict(standard)
    # A folder is data and its `_target_` is never imported: a section without a beam is greedy search.
    greedy = {} if sample or mbr else {"beam": 1}
    known = {name: saved[name] for name in standard if name in saved}
    return {**standard, **greedy, **known, "n_best": 1}


def text(argument: str) -> str:
    """A command-line argument that is text, for argparse's ``type``: UTF-8 whatever the locale says."""
    try:
        return os.fsencode(argument).decode()
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{argument!a} is not UTF-8") from error


def path_text(path: object) -> str:
    """A path to be written into a page or JSON, which are UTF-8 whatever a file is called."""
    return os.fsencode(str(path)).decode(errors="replace")


def standard_input() -> BinaryIO:
    """The bytes of stdin."""
    if sys.stdin is None:
        raise HeedError("Standard input is closed: give a file or a pipe to read from (< FILE).")
    return sys.stdin.buffer


def read_file(path: Path) -> list[str]:
    """The lines of a UTF-8 file, as `read_lines` gives them."""
    try:
        with path.open("rb") as file:
            return list(read_lines(file, str(path)))
    except OSError as error:
        raise HeedError(f"{path} cannot be read: {error.strerror}.") from error


def see_that_lines_match(files: Mapping[Path, Sequence[object]]) -> None:
    """Refuse files that do not go together line by line, naming two of them."""
    (first, lines), *others = files.items()
    for path, more in others:
        if len(more) != len(lines):
            raise HeedError(
                f"{first} has {len(lines):,} lines and {path} {len(more):,}: line by line they must belong together."
            )


def read_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    r"""The lines of a UTF-8 stream without their ends (\n or \r\n).

    Raises:
        HeedError: naming the line that is not UTF-8 or longer than `LINE_BYTES`; or if the stream is compressed.
    """
    number = 0
    while line := stream.readline(LINE_BYTES + 2):
        number += 1
        if number == 1 and (command := decompressor(line)):
            raise HeedError(f"{name} is compressed: decompress it first, with `{command}`.")
        if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise HeedError(f"{name} is UTF-16: convert it, for example with `iconv -f UTF-16 -t UTF-8`.")
        if len(line.rstrip(b"\r\n")) > LINE_BYTES:
            raise HeedError(f"Line {number} of {name} is longer than {LINE_BYTES:,} bytes: give one sentence a line.")
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise HeedError(
                f"Line {number} of {name} is not UTF-8 ({error.reason} at byte {error.start + 1}): "
                "convert the text, for example with `iconv -f LATIN1 -t UTF-8`."
            ) from error


def write_lines(lines: Iterable[str]) -> None:
    """Print lines as UTF-8, each as soon as it is there. Paths that are not UTF-8 are written as they are."""
    for line in lines:
        with writing(Path("Standard output")):
            sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
            sys.stdout.buffer.flush()


def with_progress(results: Iterable[Result]) -> Iterator[Result]:
    """The same results, counted on stderr where someone watches a long run."""
    # A closed stream is None.
    err, others = sys.stderr, (sys.stdin, sys.stdout)
    watched = err is not None and err.isatty() and not any(stream and stream.isatty() for stream in others)
    done = 0
    for done, result in enumerate(results, start=1):
        yield result
        if watched and done % LINES_AT_ONCE == 0:
            print(f"\r{done:,} lines", end="", file=sys.stderr, flush=True)
    if watched and done >= LINES_AT_ONCE:
        print(f"\r{done:,} lines", file=sys.stderr)
