"""Choose the weights with which a run ends, and write its model, translations and results."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import lightning as L
from torch import Tensor

from heed.data.datamodule import TranslationData
from heed.errors import HeedError
from heed.evaluation.buckets import WORD_COUNTS, count_words, write_counts
from heed.evaluation.words import casefolded_words
from heed.inference import model_folder
from heed.runs.averaging import checkpoint_weights, mean
from heed.runs.checkpoints import checkpoint_step
from heed.runs.config import config_digest
from heed.runs.folder import RunFolder
from heed.runs.model_card import write_model_card
from heed.runs.results import INITIAL_SCORES, build_results, write_results
from heed.training.callbacks.attention_heads import MeasureAttentionHeads
from heed.training.callbacks.checkpoints import Checkpoints
from heed.training.callbacks.metrics import CountTexts, MetricsLogger
from heed.training.loggers import log_results
from heed.training.module import TranslationModule


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
    write_model_card(run.path, results, directions=corpus.directions, license=config["license"])
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
