"""Alignment error rate while training: whether attention can be read, next to BLEU, where gold alignments are known."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback

from heed.data.synthetic import words
from heed.evaluation.alignment import (
    Extraction,
    Gold,
    MatchCounts,
    aer,
    align,
    best_extraction,
    candidate_maps,
    match_counts,
)
from heed.inference.translator import Translator
from heed.training.module import TranslationModule

if TYPE_CHECKING:
    from datasets import Dataset

AER = "valid/aer"


class AlignmentErrorRate(Callback):
    """Aligns some sentences by cross-attention, under teacher forcing, each target word with what it looks at most.

    At a validation ``valid/aer`` is that of the best single extraction (layer, head or mean of heads, row) of the
    moment. Once the final weights are there the extraction is chosen on the validation set, and its error rate on the
    test sets is measured. Silent where there is no gold alignment, and where a model has no cross-attention.

    Everything happens on the first process, without the others.
    """

    def __init__(self, *, sentences: int) -> None:
        """``sentences``: the first so many of a split; 0: none."""
        self.sentences = sentences
        self.extraction: Extraction | None = None
        """Chosen on the validation set with the final weights."""
        self.error_rates: dict[str, float] = {}
        """By split, of that extraction, from 0 to 1."""

    @property
    def results(self) -> dict[str, Any] | None:
        """``extraction`` and ``aer`` by split, as plain data; None where nothing could be measured."""
        if self.extraction is None:
            return None
        return {"extraction": asdict(self.extraction), "sentences": self.sentences, "aer": self.error_rates}

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        counts = self._counts(trainer, pl_module, "valid")
        if counts is not None:
            pl_module.log(AER, float(aer(counts).min()), rank_zero_only=True, logger=False)

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.extraction, self.error_rates = None, {}
        for split in pl_module.data.evaluated:
            counts = self._counts(trainer, pl_module, split)
            if counts is None:
                continue
            if self.extraction is None:
                assert split == "valid", "the extraction is chosen before a test set is looked at"
                self.extraction = best_extraction(aer(counts))
            self.error_rates[split] = float(aer(counts)[self.extraction.index])

    def _counts(self, trainer: L.Trainer, module: L.LightningModule, split: str) -> MatchCounts | None:
        """`match_counts` of all extractions, "2 L H 4", summed over sentences; None where there is nothing to count."""
        if not trainer.is_global_zero:
            return None
        assert isinstance(module, TranslationModule)
        pairs = _aligned_pairs(module.data.datasets[split], self.sentences)
        if not pairs:
            return None
        translator = Translator(
            module.model, module.tokenizer, module.greedy, batch_tokens=module.data.planner.device_tokens
        )
        counts = []
        for seen, (src, tgt, gold) in zip(
            translator.attend([src for src, _, _ in pairs], [tgt for _, tgt, _ in pairs]), pairs, strict=True
        ):
            if seen.cross is None:
                return None
            maps = candidate_maps(seen.cross, seen.src_pieces, seen.tgt_pieces, words(src), words(tgt))
            counts.append(match_counts(align(maps, "target"), gold))
        total: MatchCounts = np.sum(counts, axis=0)
        return total


def _aligned_pairs(split: "Dataset", sentences: int) -> list[tuple[str, str, Gold]]:
    """(source, target, gold alignment) of the first sentences of a split, as far as it is known."""
    if "meta" not in split.column_names:
        return []
    first = split.select(range(min(sentences, len(split))))
    pairs = []
    for src, tgt, meta in zip(first["src"], first["tgt"], first["meta"], strict=True):
        links = frozenset((i, j) for i, j in json.loads(meta)["alignment"])
        pairs.append((src, tgt, Gold(sure=links, possible=links)))
    return pairs
