"""``heed average`` and ``heed export``: one model from several, and a model for another engine or as a page."""

import argparse
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.lines import path_text, read_file, write_lines
from heed.errors import HeedError, argument
from heed.exchange import TARGETS
from heed.files import replacing

if TYPE_CHECKING:
    from heed.runs.averaging import WeightSource

UNCHECKED = "The page has no examples, and its weights are not checked: the run has no validation set (see --check)."


def average(args: argparse.Namespace) -> None:
    from heed.inference import model_folder
    from heed.runs import averaging

    for name in ("last", "best"):
        if (count := getattr(args, name)) is not None and count < 1:
            raise HeedError(f"{argument(name, count)} must be at least 1.")
    sources = [source for path in args.sources for source in _weight_sources(path, args)]
    if len(sources) == 1 and not args.ema:
        raise HeedError(
            f"{sources[0].path} is a single model: name several, or a run with --last K, --best K or --ema."
        )
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise HeedError(f"--out {args.out} already exists: name a new folder.")
    averaged = averaging.average(sources)
    extra = {key: value for key, value in averaged.config.items() if key not in ("family", "model")}
    extra["average_of"] = [path_text(source.path) for source in sources]
    with replacing(args.out.absolute(), durable=True) as folder:
        model_folder.save(folder, averaged.model, averaged.tokenizer, extra=extra)
    write_lines([f"{args.out}: the mean of", *(f"  {source.path}" for source in sources)])


def _weight_sources(path: Path, args: argparse.Namespace) -> "list[WeightSource]":
    """Resolve one argument to the weights it names."""
    from heed.inference import model_folder
    from heed.runs.averaging import WeightSource
    from heed.runs.checkpoints import kept_checkpoints

    run, chooses = path, args.last is not None or args.best is not None
    if not path.exists():
        raise HeedError(f"{path} does not exist: name finished runs, their checkpoints, or model folders.")
    if not path.is_dir():
        if chooses:
            raise HeedError(f"--last and --best choose among the checkpoints of a run, and {path} is not a run.")
        run, checkpoints = path.absolute().parent.parent, [path]  # RUN/checkpoints/….ckpt
    elif args.last is not None:
        checkpoints = kept_checkpoints(run, "last", args.last)
    elif chooses or args.ema:
        checkpoints = kept_checkpoints(run, "best", 1 if args.ema else args.best)
    else:
        return [WeightSource(run, model_folder.find(run))]
    folder = model_folder.find(run)
    return [WeightSource(checkpoint, folder, ema=args.ema) for checkpoint in checkpoints]


def export(args: argparse.Namespace) -> None:
    from heed.exchange.parity import check_set, validation_set
    from heed.inference import loading, model_folder
    from heed.runs.folder import validation_files

    quantization = _quantization(args)
    translator = loading.load(args.model, device="cpu", max_tokens=None)
    out = _output(args, quantization)
    if args.check:
        check = check_set(args.check.name, read_file(args.check))
    elif args.to == "page" and not validation_files(args.model, translator.directions):
        check = None
    else:
        check = validation_set(args.model, translator.directions)
    target = import_module(f"heed.exchange.to_{args.to}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as partial:
        report = target.export(translator, partial, check, quantization=quantization)
    written = [out] if out.is_file() else list(out.rglob("*"))
    before, after = map(_megabytes, (model_folder.files(model_folder.find(args.model)), written))
    found = report.lines() if report else [UNCHECKED]
    write_lines([f"{out}: {after:.1f} MB (heed's model folder: {before:.1f} MB)", *found])


def import_(args: argparse.Namespace) -> None:
    from heed.exchange.from_huggingface import import_model

    found = import_model(args.source, args.out, check=not args.no_check)
    parameters = sum(parameter.numel() for parameter in found.model.parameters())
    checked = "not compared with transformers" + ("" if args.no_check else ", which is not installed")
    if found.difference is not None:
        checked = f"logits differ from those of transformers by at most {found.difference:.1e}"
    write_lines([f"{found.folder}: a transformer with {parameters:,} parameters; {checked}"])


def _quantization(args: argparse.Namespace) -> str | None:
    """Return the type of the weights; None for the default of the target."""
    types = TARGETS[args.to]
    if args.quantization and not types:
        raise HeedError(f"--quantization is for ctranslate2 and page: leave it out for --to {args.to}.")
    if args.quantization not in (None, *types):
        raise HeedError(f"--to {args.to} has weights of {', '.join(types)}, not --quantization {args.quantization}.")
    return None if args.quantization in (None, *types[:1]) else str(args.quantization)


def _output(args: argparse.Namespace, quantization: str | None) -> Path:
    """Return the absolute path of the new folder or file, which must not exist."""
    name = f"{args.to}-{quantization}" if quantization else args.to
    out: Path = args.out or args.model / "export" / f"{name}{'.html' if args.to == 'page' else ''}"
    if out.exists() and not (args.to != "page" and out.is_dir() and not any(out.iterdir())):
        raise HeedError(f"{out} already exists: name a new one with --out, or delete it.")
    return out.absolute()


def _megabytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6
