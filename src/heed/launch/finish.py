"""What a run says and writes about itself: the lines before and after it, its model, translations and results."""

import json
import math
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch import Tensor
from torch.nn import Parameter

from heed import __version__
from heed.data.datamodule import TranslationData
from heed.data.steps.batch import Batch
from heed.errors import HeedError
from heed.evaluation.buckets import WORD_COUNTS, count_words, write_counts
from heed.evaluation.metrics import format_score
from heed.evaluation.words import casefolded_words
from heed.inference import model_folder
from heed.report.run_page import REPORT_FILE
from heed.runs.averaging import checkpoint_weights, mean
from heed.runs.checkpoints import checkpoint_step
from heed.runs.config import config_digest
from heed.runs.folder import RunFolder
from heed.runs.model_card import write_model_card
from heed.runs.results import INITIAL_SCORES, RESULTS, build_results, scores_by_split, write_results
from heed.symbols import UNK
from heed.training.callbacks.attention import MeasureAttentionHeads
from heed.training.callbacks.checkpoints import Checkpoints
from heed.training.callbacks.metrics import CountTexts, MetricsLogger
from heed.training.loggers import log_results
from heed.training.memory import activation_bytes, count_moments
from heed.training.module import TranslationModule
from heed.training.schedules import planned_steps


def run_facts(
    trainer: L.Trainer, module: TranslationModule, data: TranslationData, *, options: Sequence[str] = (), auto: str
) -> dict[str, str]:
    """Return what is about to be trained: data, model, device, steps, optimizer, and the options of the command.

    ``auto`` says what options became that were ``auto``.
    """
    corpus, tokenizer, model, planner = data.corpus, module.tokenizer, module.model, data.planner
    counts = {"train": len(data.stream.pairs)} | {name: len(text) for name, text in data.sets.texts.items()}
    directions = ", ".join(" → ".join(direction) for direction in corpus.directions)
    sizes = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    subwords = f"{tokenizer.src_vocab:,}" if tokenizer.joint else f"{tokenizer.src_vocab:,} + {tokenizer.tgt_vocab:,}"
    steps, optimizer = planned_steps(trainer, data), module.configure_optimizers()
    limit = f"about {steps:,} steps" if steps else "no limit of steps"
    facts = {
        "Data": f"{corpus.name}, {directions}; pairs: {sizes}; {subwords} subwords",
        "Model": f"{model.config.family}, {sum(p.numel() for p in model.parameters()):,} parameters, on "
        f"{trainer.world_size} × {trainer.strategy.root_device.type} in {trainer.precision}",
        "Training": f"{limit}, {data.stream.tgt_tokens / planner.batch_tokens:,.0f} per epoch, "
        f"{planner.batch_tokens:,} target tokens each, validation every {trainer.val_check_interval:,}",
        "Learning": f"{type(optimizer).__name__} with the peak rate {optimizer.param_groups[0]['lr']:g}, "
        f"{type(module.schedule).__name__}",
        "Options": " ".join(options) or "the defaults",
        "Devices": idle_devices(trainer.world_size, data),
        "Auto": auto,
    }
    return {name: text for name, text in facts.items() if text}


def describe_run(
    trainer: L.Trainer, module: TranslationModule, data: TranslationData, *, options: Sequence[str], auto: str
) -> str:
    """Return what a run would train: its sizes, steps and options, and about how much memory and time it would need."""
    with trainer.precision_plugin.train_step_context():
        facts = run_facts(trainer, module, data, options=options, auto=auto) | size_facts(module, data)
        steps, device = planned_steps(trainer, data), trainer.strategy.root_device.type
        if steps and (device, trainer.world_size) == ("cpu", 1):
            seconds = step_seconds(module, data)
            facts["Time"] = f"about {math.ceil(steps * seconds / 60):,} min on this machine, without validations"
    return "\n".join(f"{name + ':':<9} {text}" for name, text in facts.items())


def machine_facts(trainer: L.Trainer, data: TranslationData) -> dict[str, str]:
    """Return what the page of the run says beyond `run_facts`: what was cleaned, the machine and the versions."""
    device = trainer.strategy.root_device
    machine = [torch.cuda.get_device_name(device)] if device.type == "cuda" else []
    machine += [f"{platform.system()} {platform.machine()}", f"CPU threads: {torch.get_num_threads()}"]
    machine += [f"heed {__version__}", f"torch {torch.__version__}", f"Python {platform.python_version()}"]
    return {"Cleaning": data.corpus.train.describe_cleaning(), "Machine": ", ".join(machine)}


def size_facts(module: TranslationModule, data: TranslationData) -> dict[str, str]:
    """Return the parameters of each part of the model, and an estimate of the memory that training needs."""
    counts, seen = [], set[Parameter]()
    for name, part in module.model.named_children():
        own = set(part.parameters()) - seen  # tied weights count for the first part that has them
        seen |= own
        counts += [f"{name} {sum(weight.numel() for weight in own):,}"] if own else []
    megabytes = sum(weight.numel() * weight.element_size() for weight in seen) / 1e6
    moments = count_moments(module.configure_optimizers())
    tokens = min(data.planner.device_tokens, math.ceil(data.stream.step_tokens))
    activations = tokens * activation_bytes(lambda batch: module.summed_loss(batch)[0], data.stream.longest) / 1e6
    return {
        "Parts": ", ".join(counts),
        "Memory": f"about {(2 + moments) * megabytes + activations:,.0f} MB in training, including {activations:,.0f} "
        f"MB of activations of {tokens:,} tokens (batching.batch_tokens, batching.device_tokens)",
    }


def step_seconds(module: TranslationModule, data: TranslationData) -> float:
    """Return how long a step takes with pairs of average length. The model is not usable afterwards."""
    pairs, optimizer = data.stream.pairs, module.configure_optimizers()
    rows = max(1, round(data.planner.batch_tokens * len(pairs) / pairs.tgt_tokens))
    lengths = (math.ceil(tokens / len(pairs)) for tokens in (pairs.src_tokens, pairs.tgt_tokens))
    src, tgt = (torch.full((rows, length), UNK, dtype=torch.int32) for length in lengths)
    for _ in range(2):  # the first one allocates
        start = time.perf_counter()
        torch.autograd.backward(module.summed_loss(Batch.without_padding(src, tgt, tgt))[0])
        optimizer.step()
        optimizer.zero_grad()
    return time.perf_counter() - start


def idle_devices(devices: int, data: TranslationData) -> str:
    """Return a line of advice if a step has fewer micro-batches than there are devices."""
    device_tokens, used = data.planner.device_tokens, math.ceil(data.stream.step_tokens / data.planner.device_tokens)
    if data.planner.auto or used >= devices:
        return ""
    return (
        f"{devices - used} of {devices} will be idle: a step's {data.stream.step_tokens:,.0f} source and target "
        f"tokens fit into {used} × batching.device_tokens={device_tokens}; "
        f"try {math.floor(data.stream.step_tokens / (devices - 0.5))} (this changes rounding and dropout masks)."
    )


def results_summary(folder: Path, results: Mapping[str, Any], *, example: str) -> str:
    """Return the main results of a finished run, and a command that translates ``example``, a source sentence."""
    lines = [
        f"Report:   {folder / REPORT_FILE}",
        f"Trained {results['params']:,} parameters for {results['steps']:,} steps ({results['epochs']} epochs) in "
        f"{results['train_seconds']:.0f} s, {results['tokens_per_second']:,.0f} tokens/s.",
    ]
    if steps := results["averaged_steps"]:
        lines.append(f"Weights:  the mean of steps {', '.join(f'{step:,}' for step in steps)}.")
    else:
        by = f", selected by valid {results['select']}" if results["weights"] in ("best", "ema") else ""
        start = ": no validation was better than the start" if results["selected_step"] == 0 else ""
        lines.append(f"Weights:  {results['weights']}, of step {results['selected_step']:,}{by}{start}.")
    if skipped := results["skipped_steps"]:
        lines.append(f"Skipped:  {skipped:,} steps, whose loss or gradient was not finite.")
    mean = {"valid (mean)": results["valid"]} if len(results["valid"].get("sets", ())) > 1 else {}
    scored, initial = {**mean, **scores_by_split(results)}, results["initial_scores"] or {}
    for split, scores in scored.items():
        loss = "not finite" if scores["loss"] is None else f"{scores['loss']:.3f}"
        before = f"   BLEU before {initial[split]['bleu']:.2f}" if split in initial else ""
        further = "".join(
            f"   {name} {format_score(name, score['value'])}" for name, score in scores.get("metrics", {}).items()
        )
        lines.append(
            f"  {split:<20} BLEU {scores['bleu']:6.2f}   chrF {scores['chrf']:6.2f}{further}   loss {loss}{before}"
        )
    lines.append(f"  ({results['valid']['bleu_signature']})")
    for reason in dict.fromkeys(scores["not_comparable"] for scores in scored.values() if scores["not_comparable"]):
        splits = ", ".join(split for split, scores in scored.items() if scores["not_comparable"] == reason)
        lines.append(f"  {splits}: not comparable with published scores: {reason}")
    heed = Path(sys.executable).parent / "heed"
    lines.append(f"Results:  {folder / RESULTS}, and translations in the same folder.")
    lines.append(f"Try next: echo {shlex.quote(example)} | {heed} translate {folder}")
    return "\n".join(lines)


# ---- files


def chosen_weights(weights: str, checkpoints: Checkpoints) -> dict[str, Tensor]:
    """Return the weights that ``weights=`` names: of one checkpoint, or the mean of several."""
    return mean(checkpoint_weights(path, ema=weights == "ema") for path in _choose_checkpoints(weights, checkpoints))


def write_run(
    run: RunFolder, trainer: L.Trainer, module: TranslationModule, *, options: Sequence[str], match: Any
) -> dict[str, Any]:
    """Write ``translations/``, ``model/`` with its model card, and ``results.json``; log and return the results.

    ``options`` are those that differ from the defaults, ``match`` is what `match_run` returned.
    """
    data, config, model, tokenizer = module.data, run.config, module.model, module.tokenizer
    corpus, sets = data.corpus, {**data.corpus.valid, **data.corpus.tests}
    metrics = next(callback for callback in trainer.callbacks if isinstance(callback, MetricsLogger))
    totals, speed = metrics.totals, metrics.speed()
    alignment = next((c.results for c in trainer.callbacks if isinstance(c, MeasureAttentionHeads)), None)
    texts = next((c.results() for c in trainer.callbacks if isinstance(c, CountTexts)), None)
    checkpoints: Checkpoints = trainer.checkpoint_callback
    ranking, best = checkpoints.selection, [checkpoint_step(path) for path in checkpoints.best]
    used_steps = [checkpoint_step(path) for path in _choose_checkpoints(config["weights"], checkpoints)]

    for split, result in module.results.items():
        run.write_translations(split, data.sets.texts[split], result.translations)
    _write_word_counts(run.path / "translations" / WORD_COUNTS, data)

    languages = corpus.directions[0]._asdict()
    search = {key: value for key, value in config["search"].items() if key != "_target_"}
    extra, directions = {**languages, "search": search}, {}
    if len(corpus.directions) > 1:
        extra["directions"] = [list(direction) for direction in corpus.directions]
        directions = {"directions": {name: list(part.direction) for name, part in sets.items()}}
    if alignment:
        extra["alignment"] = alignment["extraction"]
    elif module.guide is not None:
        extra["alignment"] = asdict(module.guide.extraction)
    if config["init_from"]:
        parent, _ = model_folder.read_config(model_folder.find(Path(config["init_from"])))
        extra |= {"base_model": parent["base_model"]} if parent.get("base_model") else {}
    model_folder.save(run.path / "model", model, tokenizer, extra=extra)

    initial = run.path / INITIAL_SCORES
    facts = {
        "name": config["name"],
        "model": model.config.family,
        "data": corpus.name,
        **languages,
        **directions,
        "seed": config["seed"],
        "params": sum(parameter.numel() for parameter in model.parameters()),
        "steps": trainer.global_step,
        "epochs": round(totals["tgt_tokens"] / data.stream.tgt_tokens, 2),
        "tokens": totals["src_tokens"] + totals["tgt_tokens"],
        "tgt_tokens": totals["tgt_tokens"],
        "train_seconds": round(totals["fit_seconds"], 1),
        "tokens_per_second": round(speed["tokens_per_second"], 1),
        "data_wait": round(speed["data_wait"], 4),
        "padding": round(metrics.padding, 4),
        "device": f"{trainer.world_size} × {trainer.strategy.root_device.type}, {trainer.precision}",
        "decode_seconds": {split: round(result.decode_seconds, 2) for split, result in module.results.items()},
        "search": search,
        "weights": config["weights"],
        "select": ranking.deciding_metric(checkpoints.scores[best[0]]) if best else ranking.metric,
        "selected_step": used_steps[-1],
        "averaged_steps": used_steps if len(used_steps) > 1 else None,
        "skipped_steps": module.skipped.total,
        "init_from": config["init_from"],
        "match": match,
        "initial_scores": json.loads(initial.read_text(encoding="utf-8")) if initial.exists() else None,
        "alignment": alignment,
        **({} if texts is None else {"texts": texts}),
        "model_dir": str(run.path / "model"),
        "git": _git_commit(),
        "options": list(options),
        "config_digest": config_digest(config),
        "data_digest": corpus.digest,
        "train_digest": corpus.train.digest,
        "tokenizer_digest": tokenizer.digest,
    }
    evaluated = {split: (result.scores, result.loss) for split, result in module.results.items()}
    results = build_results(facts, evaluated, validated=data.sets.validated)
    write_model_card(
        run.path, results, directions=corpus.directions, license=config["license"], base_model=extra.get("base_model")
    )
    write_results(run.path, results)  # last, because it marks the run as finished
    log_results(trainer.loggers, results)
    return results


def _write_word_counts(file: Path, data: TranslationData) -> None:
    """Write how often the source words of all evaluation sets occur in the sources of the training text.

    The test sets are included with ``test=false`` too, because a search translates them later.
    """
    sets = (*data.corpus.valid.values(), *data.corpus.tests.values())
    vocabulary = {word for part in sets for src in part.text.src for word in casefolded_words(src)}
    write_counts(file, data.corpus.train.count_in_sources(partial(count_words, vocabulary=vocabulary)))


def _choose_checkpoints(weights: str, checkpoints: Checkpoints) -> list[Path]:
    """Return the checkpoints that ``weights=`` names, one or several to average; raise a HeedError if there is none."""
    kept = checkpoints.last if weights in ("last", "average_last_k") else checkpoints.best
    paths = sorted(kept) if weights.startswith("average") else kept[:1]
    if not paths:
        raise HeedError(
            f"weights={weights} needs a checkpoint, but {checkpoints.folder} holds none: the run was not validated, "
            "or the checkpoint was deleted. Train longer: raise trainer.max_steps or trainer.max_epochs."
        )
    return paths


def _git_commit() -> str | None:
    """Return the commit of the code, with "-dirty" if files differ from it; None outside heed's own repository."""
    clone = Path(__file__).parents[3]
    if not (clone / ".git").exists():  # installed, perhaps in a folder inside another repository
        return None
    command = ("git", "-C", str(clone), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
