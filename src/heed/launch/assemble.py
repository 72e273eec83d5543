"""Assemble data, tokenizer, model and training module from the parts of a run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from heed import models
from heed.data.corpus import Corpus
from heed.data.datamodule import TranslationData
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError, first_line
from heed.evaluation.comet import Comet
from heed.inference import model_folder
from heed.launch.configuration import MODULE_OPTIONS
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq
from heed.training.module import TranslationModule


def assemble(
    parts: Mapping[str, Any],
    options: Mapping[str, Any],
    corpus: Corpus,
    *,
    parent: Path | None = None,
    comet: Comet | None = None,
) -> tuple[TranslationData, TranslationModule]:
    """Assemble what a trainer needs; the tokenizer is trained or read from the cache.

    Args:
        parts: from `build_parts`.
        options: the options at the root of the configuration.
        corpus: loaded by ``parts["data"]``.
        parent: the model folder that gives tokenizer and weights (``init_from=``); None: a new tokenizer, and random
            weights drawn from ``seed``.
        comet: an additional validation metric.

    Raises:
        HeedError: if the parts do not fit together, or the model is too large.
    """
    trained = parts["tokenizer"]
    tokenizer = (
        Tokenizer.load(parent) if parent else trained.train(corpus.train, options["cache_dir"], tags=corpus.tags)
    )
    data = TranslationData(
        corpus,
        tokenizer,
        parts["batching"],
        sampling=trained.sampling,
        with_tests=options["test"],
        cache_dir=options["cache_dir"],
    )
    torch.manual_seed(options["seed"])
    model = build_model(
        parts["model"], src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab, joint=tokenizer.joint
    )
    if parent:
        model_folder.load_weights(model, parent)
    module = TranslationModule(
        model,
        tokenizer,
        optimizer=parts["optimizer"],
        schedule=parts["schedule"],
        search=parts["search"],
        comet=comet,
        **{name: options[name] for name in MODULE_OPTIONS},
    )
    return data, module


def build_model(architecture: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Build the model with random weights.

    Raises:
        HeedError: if the weights are larger than this machine's memory.
    """
    model = build_on_meta(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
    needed = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise HeedError(
            f"This model's weights need {needed / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f}: choose "
            "smaller sizes (model.*) or a smaller vocabulary (tokenizer.vocab_size)."
        )
    return models.build_model(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)


def build_on_meta(architecture: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Build the model on torch's meta device: shapes only, no memory.

    Raises:
        HeedError: if its tensors are larger than torch allows.
    """
    try:
        with torch.device("meta"):
            return models.build_model(architecture, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
    except (RuntimeError, OverflowError, MemoryError, TypeError) as error:  # TypeError: a size beyond 64 bits
        raise HeedError(f"This model is too large ({first_line(error)}): choose smaller sizes (model.*).") from error
