"""``heed average``: one model out of several checkpoints of it."""

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.common import Command, write_lines
from heed.errors import HeedError

if TYPE_CHECKING:
    from torch import Tensor

    from heed.model_folder import ModelFolder


def _average_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", type=Path, metavar="RUN|CKPT", help="finished runs, their checkpoints, or model folders"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--last", type=int, metavar="K", help="of every run the K last checkpoints it kept")
    which.add_argument("--best", type=int, metavar="K", help="of every run the K best by validation BLEU")
    which.add_argument(
        "--ema", action="store_true", help="of every run the best checkpoint's moving average; so of every CKPT"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the new model folder")


@dataclass(frozen=True)
class _Part:
    """Weights to be averaged, read when their turn comes, and the model folder that says whose weights they are."""

    path: Path
    folder: Path
    weights: "Callable[[], Mapping[str, Tensor]]"


def _average(args: argparse.Namespace) -> None:
    from heed import model_folder
    from heed.averaging import mean

    parts = [part for source in args.sources for part in _parts(source, args)]
    if len(parts) == 1 and not args.ema:
        raise HeedError(
            f"{parts[0].path} alone is its own average: name several, or a run with --last K, --best K or --ema."
        )
    if args.out.exists() and not (args.out.is_dir() and not any(args.out.iterdir())):
        raise HeedError(f"--out {args.out} is there already: name a new folder.")
    folders = {part.folder: model_folder.load(part.folder) for part in parts}
    averaged, *others = folders.values()
    for path, other in zip(list(folders)[1:], others, strict=True):
        _see_that_models_match(parts[0].folder, averaged, path, other)
    averaged.model.load_state_dict(mean(_checked_weights(parts, averaged)))
    extra = {key: value for key, value in averaged.config.items() if key not in ("family", "model")}
    extra["average_of"] = [str(part.path) for part in parts]
    model_folder.save(args.out, averaged.model, averaged.tokenizer, extra=extra)
    write_lines([f"{args.out}: the mean of", *(f"  {part.path}" for part in parts)])


def _parts(source: Path, args: argparse.Namespace) -> Iterator[_Part]:
    """What one of the arguments stands for."""
    from heed import model_folder
    from heed.averaging import checkpoint_weights

    chosen = args.last is not None or args.best is not None or args.ema
    if source.is_dir() and not chosen:
        folder = model_folder.find(source)
        yield _Part(source, folder, lambda: model_folder.load(folder).model.state_dict())
        return
    if source.is_dir():
        run, paths = source, _checkpoints(source, last=args.last, best=1 if args.ema else args.best)
    elif args.last is not None or args.best is not None:
        raise HeedError(f"--last and --best choose among the checkpoints of a run, and {source} is none.")
    else:
        # runs/NAME/TIME/checkpoints/….ckpt
        run, paths = source.absolute().parent.parent, [source]
        if not source.is_file():
            raise HeedError(f"{source} does not exist: name finished runs, their checkpoints, or model folders.")
    folder = model_folder.find(run)
    for path in paths:
        yield _Part(path, folder, lambda path=path: checkpoint_weights(path, ema=args.ema))  # type: ignore[misc]


def _checkpoints(run: Path, *, last: int | None, best: int | None) -> list[Path]:
    """The ``last`` newest or the ``best`` best checkpoints of a run."""
    kind, count = ("last", last) if last is not None else ("best", best)
    assert count is not None
    kept = sorted((run / "checkpoints").glob(f"{kind}-*.ckpt"), key=_step)
    if best is not None:
        bleu = _validation_bleu(run / "metrics.csv")
        # Of equals the earlier is better, as while training.
        kept.sort(key=lambda path: (bleu.get(_step(path), 0.0), -_step(path)))
    if not 1 <= count <= len(kept):
        raise HeedError(
            f"{run} has {len(kept)} of the {kind} checkpoints and not {count}: while training, callbacks.keep_{kind} "
            "says how many stay."
        )
    return kept[-count:]


def _step(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _validation_bleu(metrics: Path) -> dict[int, float]:
    try:
        with metrics.open(newline="", encoding="utf-8") as file:
            return {int(row["step"]): float(row["valid_bleu"]) for row in csv.DictReader(file) if row["valid_bleu"]}
    except OSError as error:
        raise HeedError(
            f"{metrics} cannot be read, and it tells which checkpoint is best: {error.strerror}."
        ) from error


def _see_that_models_match(path: Path, model: "ModelFolder", other_path: Path, other: "ModelFolder") -> None:
    if other.tokenizer.hash != model.tokenizer.hash:
        raise HeedError(f"{path} and {other_path} have different tokenizers: the mean of their weights means nothing.")
    mine, theirs = (_settings({key: m.config[key] for key in ("family", "model")}) for m in (model, other))
    differ = [key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)]
    if differ:
        raise HeedError(
            f"{path} and {other_path} have different architectures ({', '.join(sorted(differ))}): their weights have "
            "no mean."
        )


def _settings(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested config as one level of dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= _settings(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _checked_weights(parts: Sequence[_Part], model: "ModelFolder") -> "Iterator[Mapping[str, Tensor]]":
    shapes = {name: tensor.shape for name, tensor in model.model.state_dict().items()}
    for part in parts:
        weights = part.weights()
        if {name: tensor.shape for name, tensor in weights.items()} != shapes:
            raise HeedError(f"{part.path} holds the weights of another architecture than {part.folder}.")
        yield weights


COMMAND = Command("average", "Average checkpoints of a run, or models, into one model.", _average_options, _average)
