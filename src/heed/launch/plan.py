"""Settle what a command leaves open: the plan of one run, a value that can be trained, described or examined."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.corpus import Corpus
from heed.errors import HeedError
from heed.files import CONF
from heed.inference import model_folder
from heed.launch.compose import PARTS, Command, Options
from heed.launch.derive import Match, inherit, match_run, with_parent_tests
from heed.launch.parts import Parts, build_model_on, build_part, build_parts
from heed.launch.processes import check_world_size
from heed.options import format_value, get_option, with_options
from heed.progress import print_line
from heed.runs.config import find_config
from heed.training.callbacks.ema import EMA
from heed.training.module import compiled_decode_hidden, freeze
from heed.training.trainer import check_machine, resolve_precision

TYPICAL_PAIRS = 30_000
"""The number of pairs for which options that are ``auto`` are checked before the text is read."""
WEIGHT_CHOICES = ("best", "last", "ema", "average_best_k", "average_last_k")


@dataclass(frozen=True)
class RunPlan:
    """A run before it starts: `run.train` trains it, ``--dry-run`` describes it, ``heed check`` examines its text."""

    command: Command
    options: Options
    parts: Parts = field(repr=False)
    text: Callable[[], tuple[Corpus, Tokenizer]] = field(repr=False)
    """Returns the cleaned corpus and the tokenizer. They are read at the first call."""
    pruned_by: str | None = None
    """The metric of validations by which a search may end this run early; None outside a search."""
    auto: str = ""
    """What the options became that were ``auto``."""
    match: Match | None = None
    """What `match_run` says about the run that this one matches."""


def settle(command: Command, folder: Path | None = None) -> RunPlan:
    """Settle the options that depend on another model, the text or this machine, and check all.

    All that can be wrong with the options is reported before the text is read. A run that is resumed in ``folder``
    keeps the values that were settled there.

    Raises:
        HeedError: if an option is wrong, options contradict each other, or this machine cannot train the model.
    """
    options = command.options
    if command.grid:
        raise HeedError(
            f"experiment={command.choices['experiment']} trains a grid: add -m to start it, or choose "
            f"{', '.join(command.grid)} for a single run."
        )
    for other in ("resume", "init_from"):
        if options["ckpt_path"] and options[other]:
            raise HeedError(f"ckpt_path and {other} contradict each other: give only one of them.")
    if options["init_from"]:
        if options["match"] == "params":
            raise HeedError("match=params changes the widths of the model, but init_from= inherits its weights.")
        options = inherit(_with_imported_parent(options), command.words)
    elif options["tokenizer"].get("vocabulary") == "extend":
        raise HeedError("tokenizer.vocabulary=extend adds to the vocabulary of a trained model: give init_from=RUN.")
    before = find_config(folder) if folder and options["resume"] else None
    options = settle_precision(options, before)

    typical, parts = check_options(options, before)
    check_world_size(check_machine(typical["trainer"], getattr(parts["model"], "cell", None)))
    plan = RunPlan(command, typical, parts, cache(partial(read_corpus, typical, parts)), _pruned_by(command))
    options, auto = settle_auto(options, lambda: len(plan.text()[0].train), before)
    match = None
    if options["match"] is not None:
        match = match_run(options, folder, parts["model"], lambda: plan.text()[1].vocabulary)
        options = with_options(options, match["options"])
    changed = [name for name in PARTS if options[name] != typical[name]]
    parts = parts | {name: build_part(options[name], where=f"{name}.") for name in changed}
    return replace(plan, options=options, parts=parts, auto=auto, match=match)


def _with_imported_parent(options: Options) -> Options:
    """Return the options with the model folder for an ``init_from`` in Hugging Face's format, which is imported."""
    parent = Path(options["init_from"])
    if not model_folder.is_huggingface(parent):
        return options
    from heed.exchange.from_huggingface import import_once

    return {**options, "init_from": str(import_once(parent, options["cache_dir"]))}


def _pruned_by(command: Command) -> str | None:
    """Return the metric that a search watches; None for results that validations lack.

    Raises:
        HeedError: if there are options of a search, but the run is no trial.
    """
    if command.sweep is None:
        return None
    if not isinstance(command.sweep, dict) or command.sweep.get("trial") is None:
        raise HeedError(f"sweep={command.choices.get('sweep')} searches over many runs: add -m to start them.")
    objective = str(command.sweep["objective"])
    return objective.removeprefix("valid.") if objective.startswith("valid.") else None


def check_options(options: Options, before: Options | None = None) -> tuple[Options, Parts]:
    """Build the parts of a run, and check them with the model on the meta device, so that mistakes surface in seconds.

    Returns:
        The options, with the values for `TYPICAL_PAIRS` for those that are ``auto``, and the parts.

    Raises:
        HeedError: if an option is wrong, or if options contradict each other.
    """
    options, _ = settle_auto(options, lambda: TYPICAL_PAIRS, before)
    parts = build_parts(options)
    for name, sets in {"data.test": options["data"], "data.splits.test": options["data"].get("splits", {})}.items():
        if options["test"] and sets.get("test", "") is None:
            raise HeedError(f"{name}=null: there is no test set. Add test=false, or give one.")
    _check_weights(options, parts)
    model = build_model_on("meta", parts["model"], src_vocab=8, tgt_vocab=8, joint=True)
    freeze(model, parts["module"].freeze)
    if options["module"]["compile"]:
        compiled_decode_hidden(model)
    try:
        parts["optimizer"]([{"params": list(model.parameters())}])
    except (TypeError, ValueError) as error:
        raise HeedError(f"optimizer: {error}") from error
    parts["schedule"](0)
    return options, parts


def settle_precision(options: Options, before: Mapping[str, Any] | None) -> Options:
    """Give ``trainer.precision=auto`` the value for this machine or, for a resumed run, where the run started."""
    trainer = options["trainer"]
    given = before["trainer"] if before and trainer["precision"] == "auto" else trainer
    return with_options(options, {"trainer.precision": resolve_precision(given["precision"], trainer["accelerator"])})


def settle_auto(
    options: Options, count_pairs: Callable[[], int], before: Mapping[str, Any] | None = None
) -> tuple[Options, str]:
    """Give the options that are ``auto`` the values of the nearest number of pairs in conf/auto.yaml.

    Numbers are compared by their ratio. ``count_pairs`` is not called if no option of the table is ``auto``. A run that
    is limited by steps or time needs no limit of epochs; a fine-tuning that is limited by time keeps it, because too
    many epochs ruin its model. The warm-up is at most a tenth of a limit of steps. A resumed
    run keeps the values that it had ``before``, because the limit of steps may have changed.

    Returns:
        The options, and what was chosen, for the lines before a run; "" if no option is ``auto``.
    """
    limits = options["trainer"]
    is_limited = limits.get("max_steps") or (limits.get("max_time") and not options["init_from"])
    if limits.get("max_epochs") == "auto" and is_limited:
        options = with_options(options, {"trainer.max_epochs": None})
    table = yaml.safe_load((CONF / "auto.yaml").read_text(encoding="utf-8"))
    rows = table["fine_tuning"] if options["init_from"] else table.get(_family(options["model"]), {})
    names = [name for name in rows if get_option(options, name) == "auto"]
    if not names:
        return options, ""
    pairs = count_pairs()
    _, row = min((abs(math.log(size / max(pairs, 1))), row) for row, size in enumerate(table["pairs"]))
    values = {name: rows[name][row] for name in names}
    steps = limits.get("max_steps")
    if (warmup := "schedule.warmup_steps") in values and isinstance(steps, int):  # other values are reported later
        values[warmup] = max(1, min(values[warmup], steps // 10))
    values = {name: get_option(before or {}, name, default=value) for name, value in values.items()}
    chosen = " ".join(f"{name}={format_value(value)}" for name, value in values.items())
    return with_options(options, values), f"{chosen} (for {pairs:,} pairs)"


def _family(model: Mapping[str, Any]) -> str | None:
    """Return the family of models that options choose; None for a model of the user."""
    return getattr(resolve_name(model["_target_"]), "family", None) if model.get("_target_") else None


def read_corpus(options: Options, parts: Parts) -> tuple[Corpus, Tokenizer]:
    """Read and clean the corpus; train its tokenizer, or read it from the cache or the model of ``init_from``."""
    corpus: Corpus = parts["data"].load()
    print_line(corpus.train.describe_cleaning())
    folder = Path(options["init_from"]) if options["init_from"] else None
    parent = Tokenizer.load(model_folder.find(folder)) if folder else None
    tags = corpus.tags
    if parent and parent.tags:  # its sources start with a tag, also in a text with one target language
        tags = tuple(dict.fromkeys(direction.tag for direction in corpus.directions))
    trainer, tags = parts["tokenizer"], tags + corpus.train.tags
    tokenizer = trainer.train(corpus.train, options["cache_dir"], tags=tags, parent=parent)
    return (with_parent_tests(corpus, folder) if folder else corpus), tokenizer


def _check_weights(options: Options, parts: Parts) -> None:
    """Raise a HeedError unless the trainer will keep the checkpoints that ``weights=`` needs."""
    weights, trainer = options["weights"], options["trainer"]
    if weights not in WEIGHT_CHOICES:
        raise HeedError(f"weights={weights} is unknown: choose one of {', '.join(WEIGHT_CHOICES)}.")
    ema = next((c.decay for c in parts["callbacks"].values() if isinstance(c, EMA)), None)
    if weights == "ema" and ema is None:
        raise HeedError("weights=ema needs a moving average: set callbacks.ema.decay, for example to 0.999.")
    if weights in ("best", "average_best_k") and ema is not None:
        raise HeedError(
            f"callbacks.ema.decay={ema} ranks checkpoints by their averaged weights, which weights={weights} does not "
            "use: choose weights=ema, or callbacks.ema.decay=null."
        )
    option = "keep_last" if weights in ("last", "average_last_k") else "keep_best"
    if trainer[option] == 0:
        raise HeedError(f"weights={weights} needs a checkpoint, but trainer.{option}=0 keeps none: choose 1 or more.")
    if trainer[option] == 1 and weights.startswith("average"):
        raise HeedError(f"weights={weights} averages several checkpoints: set trainer.{option} to 2 or more.")
