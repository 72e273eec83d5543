"""``heed export``: write a trained model for another engine."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.arguments import add
from heed.cli.lines import read_file, write_lines
from heed.errors import HeedError
from heed.export import QUANTIZATIONS, TARGETS
from heed.files import replacing

if TYPE_CHECKING:
    from heed.inference.translator import Translator

SUMMARY = "Write a trained model for another engine, checked against heed."


def add_options(parser: argparse.ArgumentParser) -> None:
    add(parser, "model", "RUN", "run or model folder, or a copy of one")
    parser.add_argument("--to", required=True, choices=TARGETS, help="the engine")
    text = "smaller weights, for ctranslate2 and argos (default: float32)"
    parser.add_argument("--quantization", choices=QUANTIZATIONS, help=text)
    add(parser, "--out", "DIR", "the new folder (default: RUN/export/ENGINE[-QUANTIZATION])")
    add(parser, "--push", "ORG/NAME", "upload a huggingface export to this repository of the hub")
    text = "source sentences on which the export is compared with heed (default: the run's validation set)"
    add(parser, "--check", "FILE", text)


def run(args: argparse.Namespace) -> None:
    from heed.export.parity import check_set, validation_set
    from heed.inference import loading, model_folder

    _check_options(args)
    translator = loading.load(args.model, device="cpu", max_tokens=None)
    out = _output(args, translator)
    if args.check:
        check = check_set(args.check.name, read_file(args.check))
    else:
        check = validation_set(args.model, translator.directions)
    target = import_module(f"heed.export.to_{args.to}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as partial:
        report = target.export(translator, partial, check, quantization=args.quantization)
    before, after = _megabytes(model_folder.find(args.model)), _megabytes(out)
    write_lines([f"{out}: {after:.1f} MB (heed's model folder: {before:.1f} MB)", *report.lines()])
    if args.push is not None:
        from heed.export.to_huggingface import push

        write_lines([push(out, args.push)])


def _check_options(args: argparse.Namespace) -> None:
    if args.quantization and args.to not in ("ctranslate2", "argos"):
        raise HeedError(f"--quantization is for ctranslate2 and argos: leave it out for --to {args.to}.")
    if args.push is not None:
        from heed.export.to_huggingface import check_token

        if args.to != "huggingface":
            raise HeedError(f"--push uploads to the Hugging Face hub: use it with --to huggingface, not {args.to}.")
        check_token()


def _output(args: argparse.Namespace, translator: "Translator") -> Path:
    """Return the absolute path of the new folder or file, which must not exist."""
    name = f"{args.to}-{args.quantization}" if args.quantization else args.to
    out: Path = args.out or args.model / "export" / name
    if args.to == "argos":
        from heed.export.to_argos import package_name

        out = out / f"{package_name(translator)}.argosmodel"
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise HeedError(f"{out} already exists: name a new folder with --out, or delete it.")
    return out.absolute()


def _megabytes(path: Path) -> float:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
