"""Assemble a run from its configuration: everything between the options and the first training step."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from omegaconf import OmegaConf

from heed.data.corpus import Corpus
from heed.data.datamodule import TranslationData
from heed.data.tokenizer import Tokenizer
from heed.inference import model_folder
from heed.launch.configuration import Parts, build_parts
from heed.launch.dry_run import check_precision
from heed.launch.model import build_model
from heed.launch.processes import check_world_size, detect_launch, is_first_process
from heed.launch.weights import load_selection
from heed.progress import print_line
from heed.runs.selection import Selection
from heed.training.callbacks.corpora import CountCorpora
from heed.training.module import TranslationModule


@dataclass(frozen=True)
class Assembly:
    """The parts of a run, ready for ``trainer.fit(module, data)``."""

    trainer: L.Trainer
    module: TranslationModule
    data: TranslationData


def assemble(cfg: Any, folder: Path, callbacks: Sequence[Callback] = ()) -> Assembly:
    """Build the trainer, read the data, train the tokenizer or read it from the cache, and build the model.

    With ``init_from=``, tokenizer and weights are those of that model; otherwise the weights are drawn from ``seed``.

    Args:
        cfg: Hydra's DictConfig; beartype cannot check the type.
        folder: of the run.
        callbacks: further ones than those of the configuration.

    Raises:
        HeedError: if an option is wrong, before data is read; if data cannot be read; or if the model is too large.
    """
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    parts = build_parts(cfg)
    selection, comet = load_selection(config["select"])
    trainer = _build_trainer(parts, config, folder, selection, callbacks)
    check_precision(parts["model"], precision=trainer.precision, device=trainer.strategy.root_device.type)
    parent = model_folder.find(Path(config["init_from"])) if config["init_from"] else None

    corpus = parts["data"].load()
    print_line(corpus.train.describe_cleaning())
    tokenizer = Tokenizer.load(parent) if parent else _train_tokenizer(parts, config, corpus)
    data = TranslationData(
        corpus,
        tokenizer,
        parts["batching"],
        bpe_dropout=parts["tokenizer"].bpe_dropout,
        with_tests=config["test"],
        resume=config["resume"],
    )
    if corpus.train.is_mixture:
        names = [part.text.name for part in corpus.train.texts]
        trainer.callbacks.append(CountCorpora(names, config["trainer"]["log_every"]))
    torch.manual_seed(config["seed"])
    model = build_model(
        parts["model"], src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=tokenizer.joint
    )
    if parent:
        model_folder.load_weights(model, parent)
    module = parts["module"](
        model,
        tokenizer,
        optimizer=parts["optimizer"],
        schedule=parts["schedule"],
        search=parts["search"],
        seed=config["seed"],
        comet=comet,
    )
    return Assembly(trainer, module, data)


def _build_trainer(
    parts: Parts, config: dict[str, Any], folder: Path, selection: Selection, callbacks: Sequence[Callback]
) -> L.Trainer:
    launch = detect_launch()
    # Those of heed are functions of the run, and only its first process logs; others may be objects.
    loggers = [
        logger if isinstance(logger, Logger) else logger(folder=folder, config=config)
        for logger in parts["logger"].values()
        if logger is not None and (isinstance(logger, Logger) or is_first_process(launch))
    ]
    configured = [callback for callback in parts["callbacks"].values() if callback is not None]
    trainer: L.Trainer = parts["trainer"](
        folder=folder, selection=selection, callbacks=[*configured, *callbacks], loggers=loggers
    )
    check_world_size(trainer, launch)
    return trainer


def _train_tokenizer(parts: Parts, config: dict[str, Any], corpus: Corpus) -> Tokenizer:
    tokenizer: Tokenizer = parts["tokenizer"].train(corpus.train, config["cache_dir"], tags=corpus.all_tags)
    return tokenizer
