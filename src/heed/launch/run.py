"""The story of one run: build, fit, choose the weights, test, write."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

from heed.data.datamodule import TranslationData
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.pairs.vocabulary import describe_change, spell
from heed.errors import HeedError, first_line
from heed.evaluation.metrics import METRICS, find_metrics, find_unusable
from heed.evaluation.scores import Metric
from heed.files import require_room, write_file, writing
from heed.inference import model_folder
from heed.launch.derive import compare_directions
from heed.launch.finish import chosen_weights, machine_facts, results_summary, run_facts, write_run
from heed.launch.parts import build_model_on, build_part
from heed.launch.plan import RunPlan
from heed.options import raise_problems
from heed.progress import is_first_process, print_line
from heed.report.run_page import write_report
from heed.runs.checkpoints import BUILT_IN, Selection
from heed.runs.folder import RunFolder
from heed.runs.results import FACTS_FILE, INITIAL_SCORES, PRUNED, plain_scores
from heed.runs.trained import TrainedRun
from heed.training.callbacks.ema import EMA
from heed.training.callbacks.metrics import CountTexts
from heed.training.callbacks.page import RunPage
from heed.training.callbacks.stopping import FirstValidation, Pruning, Report
from heed.training.guided_alignment import GuidedAlignment
from heed.training.loggers import closing
from heed.training.memory import count_moments
from heed.training.module import TranslationModule


def train(
    plan: RunPlan, folder: Path, callbacks: Sequence[Callback] = (), report: Report | None = None
) -> TrainedRun | None:
    """Train the model of a plan in a claimed folder, test it and write its results.

    Args:
        callbacks: used in addition to the configured ones.
        report: asks a search whether to end this run, a trial, at a step with this score.

    Returns:
        The run; None if a search ended it.
    """
    run = RunFolder(folder, plan.options)
    checkpoint = run.open()
    plan.command.write_record(folder)
    pruning = Pruning(plan.pruned_by, report) if plan.pruned_by else None
    page = RunPage(folder, write_report)
    trainer, module, data = build(plan, folder, [*callbacks, *filter(None, [pruning, page])])
    _announce(plan, folder, trainer, module, data)

    with closing(trainer.loggers), writing(folder), page.closing():
        if plan.options["init_from"] and checkpoint is None:
            _score_initial_weights(folder, trainer, module, data)
            trainer.callbacks.append(FirstValidation())
        _fit(plan, checkpoint, trainer, module, data)
        if pruning and pruning.pruned_at is not None:
            if trainer.is_global_zero:
                write_file(folder / PRUNED, f"The search ended this run early, after step {pruning.pruned_at:,}.\n")
            return None
        module.model.load_state_dict(chosen_weights(plan.options["weights"], trainer.checkpoint_callback))
        trainer.test(module, data, verbose=False)
        if trainer.is_global_zero:
            results = write_run(run, trainer, module, options=plan.command.differences, match=plan.match)
            print_line(results_summary(folder, results, example=data.sets.texts[data.sets.validated[0]].src[0]))
        return TrainedRun(folder)


# ---- build


def build(
    plan: RunPlan, folder: Path, callbacks: Iterable[Callback] = ()
) -> tuple[L.Trainer, TranslationModule, TranslationData]:
    """Build the trainer, read the data, train the tokenizer or read it from the cache, and build the model.

    Raises:
        HeedError: if an option is wrong, before data is read; if data cannot be read; or if the model is too large.
    """
    options, parts = plan.options, plan.parts
    selection, metrics = load_metrics(options)
    trainer = _build_trainer(plan, folder, selection, callbacks)
    corpus, tokenizer = plan.text()
    if options["init_from"]:
        parent = model_folder.find(Path(options["init_from"]))
        old = Tokenizer.load(parent)
        is_same = tokenizer.digest == old.digest
        compare_directions(Path(options["init_from"]), corpus.directions, fits=tokenizer.joint or not is_same)
    data = TranslationData(
        corpus,
        tokenizer,
        parts["batching"],
        bpe_dropout=parts["tokenizer"].bpe_dropout,
        with_tests=options["test"],
        limits=parts["model"].length_limits,
        resume=options["resume"],
    )
    if corpus.train.is_mixture:
        trainer.callbacks.append(CountTexts([text.name for text in corpus.train.texts]))
    torch.manual_seed(options["seed"])
    model = build_model_on("cpu", parts["model"], **tokenizer.vocabulary)
    if options["init_from"]:
        spellings = spell(tokenizer, old)
        model_folder.load_weights(model, parent, spellings)
        if not is_same:
            text = data.sets.texts[data.sets.validated[0]]
            print_line(f"Vocabulary: {describe_change(tokenizer, old, spellings, text)}.")
    later: dict[str, Any] = {name: parts[name] for name in ("optimizer", "schedule", "search")}
    if file := parts["module"].guided_alignment:
        # The corpus knows, the options do not: data=synthetic also has data.src_lang=de.
        reverse = getattr(parts["data"], "reverse", False)
        later["guide"] = GuidedAlignment(Path(file), corpus.train, tokenizer, model.attention_heads, reverse=reverse)
    module = TranslationModule(model, tokenizer, parts["module"], seed=options["seed"], metrics=metrics, **later)
    return trainer, module, data


def load_metrics(options: Mapping[str, Any]) -> tuple[Selection, dict[str, Metric]]:
    """Return how validations are ranked (``select=``), and the further metrics of validations and tests, by name."""
    known = {name.lower(): metric for name, metric in METRICS.items()}
    known |= {name: build_part(node, where=f"metric.{name}.") for name, node in options["metric"].items()}
    select = options["select"]
    if select not in (*BUILT_IN, *known) or select == "length-ratio":  # the best ratio is 1
        choices = ", ".join(dict.fromkeys([*BUILT_IN, *known]))
        raise HeedError(f"select={select} cannot rank validations: choose one of {choices}.")
    chosen = find_metrics([*options["metrics"], *[select] * (select not in BUILT_IN)], known)
    metrics = {name: metric for name, metric in chosen.items() if name not in BUILT_IN}
    if is_first_process():  # packages and models that are missing are reported before training
        given = {"sources": ["a"], "tgt_lang": options["data"].get("tgt_lang") or "en", "likelihood": lambda: (1.0, 1)}
        raise_problems(f"metrics: {reason}" for reason in find_unusable(metrics.items(), **given).values())
    return Selection(select), metrics


def _build_trainer(plan: RunPlan, folder: Path, selection: Selection, callbacks: Iterable[Callback]) -> L.Trainer:
    # Loggers of heed are functions of the run, and only its first process logs; others may be objects.
    loggers = [
        logger if isinstance(logger, Logger) else logger(folder=folder, config=plan.options)
        for logger in plan.parts["logger"].values()
        if isinstance(logger, Logger) or is_first_process()
    ]
    chosen = [*plan.parts["callbacks"].values(), *callbacks]
    trainer: L.Trainer = plan.parts["trainer"](folder=folder, selection=selection, callbacks=chosen, loggers=loggers)
    return trainer


def _announce(
    plan: RunPlan, folder: Path, trainer: L.Trainer, module: TranslationModule, data: TranslationData
) -> None:
    """Print what is about to be trained, and write it to the run folder, in the first process."""
    if not trainer.is_global_zero:
        return
    _require_room(folder, module, has_average=any(isinstance(c, EMA) and c.decay for c in trainer.callbacks))
    facts = run_facts(trainer, module, data, options=plan.command.differences, auto=plan.auto)
    print_line("\n".join(f"{name + ':':<9} {text}" for name, text in [*facts.items(), ("Folder", folder)]))
    text = json.dumps(facts | machine_facts(trainer, data), indent=2, ensure_ascii=False)
    write_file(folder / FACTS_FILE, text + "\n")


def _require_room(folder: Path, module: TranslationModule, *, has_average: bool) -> None:
    """Raise a HeedError if the disk has too little room for a checkpoint: weights, their average, optimizer state."""
    moments = count_moments(module.configure_optimizers())
    weights = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    require_room(folder, (1 + moments + has_average) * weights, "a checkpoint of this model", "folder")


# ---- fit


def _score_initial_weights(folder: Path, trainer: L.Trainer, module: TranslationModule, data: TranslationData) -> None:
    """Evaluate the model before it is trained, as after training, and write the scores to the run folder."""
    trainer.test(module, data, verbose=False)
    if trainer.is_global_zero:
        scores = plain_scores({split: (result.scores, result.loss) for split, result in module.results.items()})
        write_file(folder / INITIAL_SCORES, json.dumps(scores, indent=2, ensure_ascii=False) + "\n")


def _fit(
    plan: RunPlan, checkpoint: Path | None, trainer: L.Trainer, module: TranslationModule, data: TranslationData
) -> None:
    """Train from the beginning or from a checkpoint; raise a HeedError if it cannot be trained further."""
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
    if not (module.training_began or plan.options["resume"]):
        limits = plan.options["trainer"]
        limit = "max_steps" if trainer.global_step >= (limits["max_steps"] or math.inf) else "max_time"
        raise HeedError(
            f"{checkpoint} is already at step {trainer.global_step:,} of trainer.{limit}={limits[limit]}: raise "
            f"trainer.{limit} to train further."
        )
