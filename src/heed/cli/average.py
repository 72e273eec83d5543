"""``heed average``: average checkpoints or models into one model."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError, argument
from heed.files import replacing

if TYPE_CHECKING:
    from heed.runs.averaging import WeightSource


def run(args: argparse.Namespace) -> None:
    from heed.inference import model_folder
    from heed.runs.averaging import average

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
    averaged = average(sources)
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
