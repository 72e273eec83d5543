"""``heed average``: one model out of several checkpoints of it."""

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.arguments import Command
from heed.cli.lines import path_text, write_lines
from heed.errors import HeedError
from heed.files import check_regular, read_yaml, replacing
from heed.runs.selection import SIGN, Selection

if TYPE_CHECKING:
    from torch import Tensor

    from heed.inference.model_folder import ModelFolder


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
    from heed.inference import model_folder
    from heed.runs.averaging import mean

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
    unknown = _check_lineage([part.folder for part in parts])
    averaged.model.load_state_dict(mean(_checked_weights(parts, averaged)))
    extra = {key: value for key, value in averaged.config.items() if key not in ("family", "model")}
    extra["average_of"] = [path_text(part.path) for part in parts]
    with replacing(args.out.absolute()) as folder:
        model_folder.save(folder, averaged.model, averaged.tokenizer, extra=extra)
    if unknown:
        print(f"heed: {unknown}", file=sys.stderr)
    write_lines([f"{args.out}: the mean of", *(f"  {part.path}" for part in parts)])


def _parts(source: Path, args: argparse.Namespace) -> Iterator[_Part]:
    """What one of the arguments stands for."""
    from heed.inference import model_folder
    from heed.runs.averaging import checkpoint_weights

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
    kept = [path for path in (run / "checkpoints").glob(f"{kind}-*.ckpt") if path.stem.rpartition("-")[2].isdecimal()]
    kept.sort(key=_step)
    if best is not None:
        scores = _validation_scores(run / "metrics.csv")
        selection = Selection((_run_config(run) or {}).get("select", "bleu"))
        kept = [path for path in kept if _step(path) in scores]
        # Of equals the earlier is better, as while training.
        kept.sort(key=lambda path: (selection.key(scores[_step(path)]), -_step(path)))
    if not 1 <= count <= len(kept):
        raise HeedError(
            f"{run} has {len(kept)} of the {kind} checkpoints and not {count}: while training, callbacks.keep_{kind} "
            "says how many stay."
        )
    return kept[-count:]


def _step(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _validation_scores(metrics: Path) -> dict[int, dict[str, float]]:
    """By step, what `Selection` compares."""
    check_regular(metrics)
    try:
        with metrics.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["valid_bleu"]]
        known = [metric for metric in SIGN if rows and rows[0].get(f"valid_{metric}")]
        return {int(row["step"]): {metric: float(row[f"valid_{metric}"]) for metric in known} for row in rows}
    except OSError as error:
        raise HeedError(
            f"{metrics} cannot be read, and it tells which checkpoint is best: {error.strerror}."
        ) from error
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise HeedError(
            f"{metrics} is damaged, and it tells which checkpoint is best: name the checkpoints themselves."
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


def _check_lineage(folders: "Sequence[Path]") -> str | None:
    """Refuse weights that did not begin as the same: between unrelated ones there is no valley, and no mean.

    Runs are related if they were initialised by the same seed, or if one began with the other's weights, or both with
    a third's (Wortsman et al. 2022, "Model soups").

    Returns:
        A warning, where a folder does not tell how its weights began.
    """
    runs = list(dict.fromkeys(folder.resolve().parent for folder in folders))
    first, *others = ((run, _ancestors(run)) for run in runs)
    for run, ancestors in others:
        if not (ancestors and first[1]):
            silent = run if first[1] else first[0]
            return (
                f"nothing tells how the weights in {silent} began: if not as the others did, with the same seed or "
                "from the same model, their mean is of no use. Score it."
            )
        if not ancestors & first[1]:
            raise HeedError(
                f"{first[0]} and {run} began with different weights ({_origin(first[0])}, {_origin(run)}): their mean "
                "means nothing. Average checkpoints of one run, or runs with one init_from, or decode with both "
                "(heed translate --model A --model B)."
            )
    return None


def _ancestors(run: Path) -> set[str]:
    """The run, the runs whose weights it began with, and the seed of the first of them; empty if it does not tell."""
    found: set[str] = set()
    while str(run) not in found and (config := _run_config(run)):
        found.add(str(run))
        parent = config.get("init_from") or config.get("ckpt_path")
        if not parent:
            return found | {f"seed {config['seed']}"}
        # A run, its model folder, or one of its checkpoints.
        path = Path(str(parent)).resolve()
        run = next((above for above in (path, *path.parents[:2]) if _run_config(above)), path)
    # The last run is not there any more: still it may be an ancestor of others, too.
    return found | {str(run)} if found else found


def _origin(run: Path) -> str:
    config = _run_config(run) or {}
    parent = config.get("init_from") or config.get("ckpt_path")
    return f"from {parent}" if parent else f"seed={config.get('seed')}"


def _run_config(run: Path) -> dict[str, Any] | None:
    """A run's config.yaml, if it is one."""
    try:
        config = read_yaml(run / "config.yaml")
    except HeedError:
        return None
    return config if "seed" in config else None


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
