"""Alignment error rate (AER) of cross-attention, at every validation and for the final weights."""

import json
from dataclasses import asdict
from itertools import islice
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback

from heed.data.text import ParallelText
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
from heed.options import AtLeast0
from heed.synthetic import split_punctuation

METRIC = "valid/aer"


class AlignmentErrorRate(Callback):
    """Measures the AER of word alignments from cross-attention: each target word aligns with its most attended word.

    Attention is computed with teacher forcing on the reference translation. Every validation logs as ``valid/aer`` the
    AER of the best extraction (layer, head or mean of heads, row). For the final weights, the extraction is chosen on
    the validation set, and its AER is measured on the test sets.

    Does nothing for data without gold alignments and for models without cross-attention. Only the first process
    computes.
    """

    def __init__(self, *, sentences: AtLeast0) -> None:
        """
        Args:
            sentences: the number of sentences to use, from the start of each split; 0: none.
        """
        self.sentences = sentences
        self.extraction: Extraction | None = None
        """Chosen on the validation set with the final weights."""
        self.error_rates: dict[str, float] = {}
        """AER of that extraction for each split, from 0 to 1."""

    @property
    def results(self) -> dict[str, Any] | None:
        """``extraction``, ``sentences`` and ``aer`` by split as plain data, or None if nothing was measured."""
        if self.extraction is None:
            return None
        return {"extraction": asdict(self.extraction), "sentences": self.sentences, "aer": self.error_rates}

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        counts = self._counts(trainer, pl_module, pl_module.data.validated[0])
        if counts is not None:
            pl_module.log(METRIC, float(aer(counts).min()), rank_zero_only=True, logger=False)

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.extraction, self.error_rates = None, {}
        for split in pl_module.data.evaluated:
            counts = self._counts(trainer, pl_module, split)
            if counts is None:
                continue
            if self.extraction is None:
                assert split in pl_module.data.validated, "the extraction is chosen before a test set is evaluated"
                self.extraction = best_extraction(aer(counts))
            self.error_rates[split] = float(aer(counts)[self.extraction.index])

    def _counts(self, trainer: L.Trainer, module: L.LightningModule, split: str) -> MatchCounts | None:
        """Return `matches` of all extractions, "2 L H 4", summed over sentences; None if there is nothing to count."""
        if not trainer.is_global_zero:
            return None
        pairs = _aligned_pairs(module.data.texts[split], self.sentences)
        if not pairs:
            return None
        sources, targets = [src for src, _, _ in pairs], [tgt for _, tgt, _ in pairs]
        counts = []
        for attended, (src, tgt, gold) in zip(module.translator.attend(sources, targets), pairs, strict=True):
            if attended.cross is None:
                return None
            maps = candidate_maps(
                attended.cross, attended.src_pieces, attended.tgt_pieces, split_punctuation(src), split_punctuation(tgt)
            )
            counts.append(match_counts(align(maps, "target"), gold))
        total: MatchCounts = np.sum(counts, axis=0)
        return total


def _aligned_pairs(text: ParallelText, sentences: int) -> list[tuple[str, str, Gold]]:
    """Return (source, target, gold alignment) of the first sentences; an empty list if the split has no alignments."""
    if text.meta is None:
        return []
    pairs = []
    for src, tgt, meta in islice(zip(text.src, text.tgt, text.meta, strict=True), sentences):
        links = frozenset((i, j) for i, j in json.loads(meta)["alignment"])
        pairs.append((src, tgt, Gold(sure=links, possible=links)))
    return pairs
