"""The plan of one run: build, fit, test, and write the results."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning as L
import torch
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from omegaconf import OmegaConf, open_dict

from heed.data.datamodule import TranslationData
from heed.data.pairs.encoding import encode
from heed.errors import HeedError, first_line
from heed.evaluation.metrics import METRICS, find_metrics, find_unusable
from heed.evaluation.scores import Metric
from heed.files import require_room, write_file, writing
from heed.inference import model_folder
from heed.launch.compose import Config, compose, find_differences, settle_auto
from heed.launch.configuration import Parts, build_model_on, build_part, build_parts, dry_run, plain_options
from heed.launch.errors import explained
from heed.launch.fine_tuning import compare_directions, inherit_architecture, score_initial_weights
from heed.launch.finish import chosen_weights, write_run
from heed.launch.folder import write_hydra_folder
from heed.launch.matching import match_run
from heed.launch.page import RunPage
from heed.launch.processes import check_world_size, detect_launch
from heed.launch.summary import machine_facts, results_summary, run_facts, size_facts
from heed.options import raise_problems
from heed.progress import is_first_process, print_line
from heed.runs.checkpoints import BUILT_IN, Selection
from heed.runs.claim import remove_empty
from heed.runs.config import find_config
from heed.runs.folder import RunFolder
from heed.runs.results import FACTS, PRUNED
from heed.training.callbacks.ema import EMA
from heed.training.callbacks.stopping import Pruning, Report
from heed.training.callbacks.text_counts import CountTexts
from heed.training.guided_alignment import GuidedAlignment
from heed.training.loggers import closing
from heed.training.memory import count_moments
from heed.training.module import TranslationModule
from heed.training.trainer import resolve_precision


def train_one_run(cfg: Config, folder: Path, callbacks: Sequence[Callback] = ()) -> dict[str, Any] | None:
    """Train one model in a claimed folder, test it and write its results; see `assemble`.

    Returns:
        The content of results.json; None in all processes but the first, and if a search pruned the run.
    """
    for other in ("resume", "init_from"):
        if cfg.ckpt_path and cfg[other]:
            raise HeedError(f"ckpt_path and {other} contradict each other: give only one of them.")
    is_first = is_first_process()
    differences = find_differences(cfg) if is_first else []  # from the defaults, not from what is inherited
    config, parts, auto, match = settle(cfg, folder)
    run = RunFolder(folder, config)
    checkpoint = run.open(write=is_first)
    if is_first:
        write_hydra_folder(cfg, folder)
    page = RunPage(folder) if is_first else None
    trainer, module, data = assemble(config, parts, folder, [*callbacks, page] if page else callbacks)
    if is_first:
        average = any(isinstance(callback, EMA) and callback.decay for callback in trainer.callbacks)
        _check_room(folder, module, has_average=average)
        facts = run_facts(trainer, module, data, differences=differences) | auto
        print_line("\n".join(f"{name + ':':<9} {text}" for name, text in [*facts.items(), ("Folder", folder)]))
        text = json.dumps(facts | machine_facts(trainer, data), indent=2, ensure_ascii=False)
        write_file(folder / FACTS, text + "\n")

    with closing(trainer.loggers), writing(folder), page.closing() if page else nullcontext():
        if config["init_from"] and checkpoint is None:
            score_initial_weights(folder, trainer, module, data)
        try:
            trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
        except HeedError:
            raise
        except Exception as error:  # a checkpoint holds state of heed, Lightning and torch; any of it may be wrong
            if checkpoint is None or module.training_began:
                raise
            raise HeedError(
                f"{checkpoint} cannot be resumed from: it is damaged, or other versions of the libraries wrote it "
                f"({type(error).__name__}: {first_line(error)}). Name another checkpoint with ckpt_path=."
            ) from error
        if not (module.training_began or config["resume"]):
            limits = config["trainer"]
            limit = "max_steps" if trainer.global_step >= (limits["max_steps"] or math.inf) else "max_time"
            raise HeedError(
                f"{checkpoint} is already at step {trainer.global_step:,} of trainer.{limit}={limits[limit]}: raise "
                f"trainer.{limit} to train further."
            )
        if (step := next((c.pruned_at for c in trainer.callbacks if isinstance(c, Pruning)), None)) is not None:
            if trainer.is_global_zero:
                write_file(folder / PRUNED, f"The search ended this run early, after step {step:,}.\n")
            return None
        module.model.load_state_dict(chosen_weights(config["weights"], trainer.checkpoint_callback))
        trainer.test(module, data, verbose=False)
        if trainer.is_global_zero:
            results = write_run(run, trainer, module, options=differences, match=match)
            print_line(results_summary(folder, results, example=data.sets.texts[data.sets.validated[0]].src[0]))
            return results
    return None


def settle(cfg: Config, folder: Path) -> tuple[dict[str, Any], Parts, dict[str, str], dict[str, Any] | None]:
    """Settle the options that depend on the text, another model or this machine, and check all; see `dry_run`.

    Returns:
        The options, the parts, what ``auto`` became (for `run_facts`), and what `match_run` returned, or None.
    """
    if cfg.init_from:
        if cfg.match == "params":
            raise HeedError("match=params changes the widths of the model, but init_from= inherits its weights.")
        inherit_architecture(cfg, HydraConfig.get().overrides.task)
    config, parts = dry_run(cfg)
    text, match = parts["text"], None
    # What this machine cannot train is refused before the text is read and anything is written.
    selection, _ = load_metrics(config)
    _build_trainer(config, parts | {"logger": {}}, folder, selection, ())

    before = find_config(folder) if cfg.resume else None
    if facts := settle_auto(cfg, lambda: len(text()[0].train), before):
        config, parts = dry_run(cfg)
    if cfg.match is not None:
        match = match_run(cfg, folder, parts["model"], lambda: text()[1].vocabulary)
        config, parts = dry_run(cfg)
    cfg.trainer.precision = config["trainer"]["precision"] = _choose_precision(config, folder)
    return config, parts | {"text": text}, facts, match


def _choose_precision(config: Mapping[str, Any], folder: Path) -> str:
    """Return what ``trainer.precision=auto`` means on this machine or, for a resumed run, where the run started."""
    options = config["trainer"]
    before = find_config(folder) if config["resume"] and options["precision"] == "auto" else None
    chosen = before["trainer"]["precision"] if before else options["precision"]
    return str(resolve_precision(chosen, options["accelerator"]))


def _check_room(folder: Path, module: TranslationModule, *, has_average: bool) -> None:
    """Raise a HeedError if the disk has too little room for a checkpoint: weights, their average, optimizer state."""
    moments = count_moments(module.configure_optimizers())
    weights = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    require_room(folder, (1 + moments + has_average) * weights, "a checkpoint of this model", "hydra.run.dir")


# ---- from parts to the first training step


def assemble(
    config: Mapping[str, Any], parts: Parts, folder: Path, callbacks: Iterable[Callback] = ()
) -> tuple[L.Trainer, TranslationModule, TranslationData]:
    """Build the trainer, read the data, train the tokenizer or read it from the cache, and build the model.

    ``config`` and ``parts`` are those of `dry_run`; ``callbacks`` are used in addition to the configured ones.

    Raises:
        HeedError: if an option is wrong, before data is read; if data cannot be read; or if the model is too large.
    """
    selection, metrics = load_metrics(config)
    trainer = _build_trainer(config, parts, folder, selection, callbacks)
    corpus, tokenizer = parts["text"]()
    if config["init_from"]:
        compare_directions(Path(config["init_from"]), corpus.directions, joint=tokenizer.joint)
    data = TranslationData(
        corpus,
        tokenizer,
        parts["batching"],
        bpe_dropout=parts["tokenizer"].bpe_dropout,
        with_tests=config["test"],
        limits=parts["model"].length_limits,
        resume=config["resume"],
    )
    if corpus.train.is_mixture:
        trainer.callbacks.append(CountTexts([text.name for text in corpus.train.texts]))
    torch.manual_seed(config["seed"])
    model = build_model_on("cpu", parts["model"], **tokenizer.vocabulary)
    if config["init_from"]:
        model_folder.load_weights(model, model_folder.find(Path(config["init_from"])))
    later: dict[str, Any] = {name: parts[name] for name in ("optimizer", "schedule", "search")}
    if file := parts["module"].guided_alignment:
        # The corpus knows, the options do not: data=synthetic also has data.src_lang=de.
        reverse = getattr(parts["data"], "reverse", False)
        later["guide"] = GuidedAlignment(Path(file), corpus.train, tokenizer, model.attention_heads, reverse=reverse)
    module = TranslationModule(model, tokenizer, parts["module"], seed=config["seed"], metrics=metrics, **later)
    return trainer, module, data


def load_metrics(config: Mapping[str, Any]) -> tuple[Selection, dict[str, Metric]]:
    """Return how validations are ranked (``select=``), and the further metrics of validations and tests, by name."""
    known = {name.lower(): metric for name, metric in METRICS.items()}
    known |= {n: build_part(node, where=f"metric.{n}.", later=("output",)) for n, node in config["metric"].items()}
    select = config["select"]
    if select not in (*BUILT_IN, *known) or select == "length-ratio":  # the best ratio is 1
        choices = ", ".join(dict.fromkeys([*BUILT_IN, *known]))
        raise HeedError(f"select={select} cannot rank validations: choose one of {choices}.")
    chosen = find_metrics([*config["metrics"], *[select] * (select not in BUILT_IN)], known)
    metrics = {name: metric for name, metric in chosen.items() if name not in BUILT_IN}
    if is_first_process():  # packages and models that are missing are reported before training
        given = {"sources": ["a"], "tgt_lang": config["data"].get("tgt_lang") or "en", "likelihood": lambda: (1.0, 1)}
        raise_problems(f"metrics: {reason}" for reason in find_unusable(metrics.items(), **given).values())
    return Selection(select), metrics


def _build_trainer(
    config: Mapping[str, Any], parts: Parts, folder: Path, selection: Selection, callbacks: Iterable[Callback]
) -> L.Trainer:
    """Build the trainer and its loggers.

    Raises:
        HeedError: if the trainer does not fit the launcher, and for an LSTM in fp16 on a CPU, which oneDNN lacks.
    """
    # Those of heed are functions of the run, and only its first process logs; others may be objects.
    loggers = [
        logger if isinstance(logger, Logger) else logger(folder=folder, config=config)
        for logger in parts["logger"].values()
        if isinstance(logger, Logger) or is_first_process()
    ]
    chosen = [*parts["callbacks"].values(), *callbacks]
    precision = config["trainer"]["precision"]  # no longer auto, with which the part was built
    trainer: L.Trainer = parts["trainer"](
        folder=folder, selection=selection, callbacks=chosen, loggers=loggers, precision=precision
    )
    check_world_size(trainer, detect_launch())
    is_fp16_on_cpu = (trainer.precision, trainer.strategy.root_device.type) == ("16-mixed", "cpu")
    if is_fp16_on_cpu and getattr(parts["model"], "cell", None) == "lstm":
        raise HeedError(
            "trainer.precision=16-mixed cannot train model.cell=lstm on a CPU: choose trainer.precision=bf16-mixed or "
            "32-true, or model.cell=gru."
        )
    return trainer


def describe_run(cfg: Config) -> str:
    """Return what a run would train: its sizes, steps and options, and about how much memory it would need."""
    take_pruning(cfg)
    cfg.logger, cfg.resume = {}, False
    remove_empty(Path(HydraConfig.get().runtime.output_dir))  # Hydra has made it
    differences = find_differences(cfg)
    config, parts, auto, _ = settle(cfg, Path("unused"))
    trainer, module, data = assemble(config, parts, Path("unused"))
    with trainer.precision_plugin.train_step_context():
        facts = run_facts(trainer, module, data, differences=differences) | auto | size_facts(module, data)
    return "\n".join(f"{name + ':':<9} {text}" for name, text in facts.items())


def prepare(overrides: Sequence[str]) -> str:
    """Prepare the text of ``heed train OVERRIDES``, so that the training starts at once, and return a report.

    Raises:
        HeedError: if an option is wrong or the data cannot be read.
    """
    with explained(overrides):
        parts = build_parts(plain_options(compose(overrides)))
    corpus, tokenizer = parts["text"]()
    lines = []
    for text in corpus.train.texts:
        pairs = encode(text, tokenizer)
        src, tgt = pairs.chunk_tokens.sum(axis=0).tolist()
        lines += [
            f"Prepared: {text.name}{': ' if text.name else ''}{len(pairs):,} pairs with {src:,} source and "
            f"{tgt:,} target tokens",
            f"Folder:   {pairs.folder}",
            f"Digest:   {pairs.digest}",
        ]
    return "\n".join([*lines, f"Text:     {corpus.digest}"])


# ---- grids and trials of a search


def check_grid() -> None:
    """Raise a HeedError for a single run of a grid's preset, unless the command chooses what the grid varies."""
    job = HydraConfig.get()
    given = {word.lstrip("+").partition("=")[0] for word in job.overrides.task}
    if varied := [name for name in job.sweeper.get("params") or () if name not in given]:
        raise HeedError(
            f"experiment={job.runtime.choices.experiment} trains a grid: add -m to start it, or choose "
            f"{', '.join(varied)} for a single run."
        )


def take_pruning(cfg: Config, report: Report | None = None) -> list[Callback]:
    """Remove the options of a search from the configuration of a run, and return the callback that prunes a trial.

    All processes of a trial need it. There is none outside a search, and for results that validations lack.

    Raises:
        HeedError: if there are options of a search, but the run is no trial.
    """
    with open_dict(cfg):
        options = cfg.pop("sweep", None)
    if options is None:
        return []
    if not OmegaConf.is_dict(options) or options.get("trial") is None:
        choice = HydraConfig.get().runtime.choices.get("sweep")
        raise HeedError(f"sweep={choice} searches over many runs: add -m to start them.")
    names = [options.objective] if isinstance(options.objective, str) else list(options.objective)
    is_measured = len(names) == 1 and names[0].startswith("valid.")
    return [Pruning(names[0].removeprefix("valid."), report)] if is_measured else []
