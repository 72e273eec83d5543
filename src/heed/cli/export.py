"""``heed export``: write a trained model for another engine, or as a page."""

import argparse
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.lines import read_file, write_lines
from heed.errors import HeedError
from heed.export import TARGETS
from heed.files import replacing

if TYPE_CHECKING:
    from heed.inference.translator import Translator

UNCHECKED = "The page has no examples, and its weights are not checked: the run has no validation set (see --check)."


def run(args: argparse.Namespace) -> None:
    from heed.export.parity import check_set, validation_set
    from heed.inference import loading, model_folder
    from heed.runs.folder import validation_files

    quantization = _quantization(args)
    translator = loading.load(args.model, device="cpu", max_tokens=None)
    out = _output(args, translator, quantization)
    if args.check:
        check = check_set(args.check.name, read_file(args.check))
    elif args.to == "page" and not validation_files(args.model, translator.directions):
        check = None
    else:
        check = validation_set(args.model, translator.directions)
    target = import_module(f"heed.export.to_{args.to}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as partial:
        report = target.export(translator, partial, check, quantization=quantization)
    written = [out] if out.is_file() else list(out.rglob("*"))
    before, after = map(_megabytes, (model_folder.files(model_folder.find(args.model)), written))
    found = report.lines() if report else [UNCHECKED]
    write_lines([f"{out}: {after:.1f} MB (heed's model folder: {before:.1f} MB)", *found])


def _quantization(args: argparse.Namespace) -> str | None:
    """Return the type of the weights; None for the default of the target."""
    types = TARGETS[args.to]
    if args.quantization and not types:
        raise HeedError(f"--quantization is for ctranslate2, argos and page: leave it out for --to {args.to}.")
    if args.quantization not in (None, *types):
        raise HeedError(f"--to {args.to} has weights of {', '.join(types)}, not --quantization {args.quantization}.")
    return None if args.quantization in (None, *types[:1]) else str(args.quantization)


def _output(args: argparse.Namespace, translator: "Translator", quantization: str | None) -> Path:
    """Return the absolute path of the new folder or file, which must not exist."""
    name = f"{args.to}-{quantization}" if quantization else args.to
    out: Path = args.out or args.model / "export" / f"{name}{'.html' if args.to == 'page' else ''}"
    if args.to == "argos":
        from heed.export.to_argos import package_name

        out = out / f"{package_name(translator)}.argosmodel"
    if out.exists() and not (args.to != "page" and out.is_dir() and not any(out.iterdir())):
        raise HeedError(f"{out} already exists: name a new one with --out, or delete it.")
    return out.absolute()


def _megabytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
