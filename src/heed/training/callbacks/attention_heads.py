"""What each attention head does: entropy, and alignment error rate (AER), at every validation and finally."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback

from heed.data.text import ParallelText
from heed.evaluation.alignment import (
    Extraction,
    MatchCounts,
    aer,
    align,
    annotated_gold,
    best_extraction,
    candidate_maps,
    match_counts,
)
from heed.evaluation.entropy import normalized_entropy
from heed.evaluation.significance import Floats
from heed.inference.outputs import Attended
from heed.options import AtLeast0
from heed.runs.records import ATTENTION, HEADS, CSVRecords
from heed.synthetic import split_punctuation

METRIC = "valid/aer"
FIELDS = ("step", "attention", "layer", "head", "entropy", "aer")
"""Columns of ``attention/heads.csv``."""


class MeasureAttentionHeads(Callback):
    """Measures every head: the entropy of its attention, and the AER of the word alignment that it gives.

    Attention is computed with teacher forcing on the reference translation. ``attention/heads.csv`` has a row for each
    validation and head of the first validation set:

    - ``entropy``: see `normalized_entropy`, the mean over positions;
    - ``aer``: of cross-attention, if the corpus has gold alignments: each target word aligns with its most attended
      word, in the output or the input row (`Extraction.row`), whichever has the lower AER.

    Every validation logs as ``valid/aer`` the AER of the best extraction (layer, head or mean of heads, row). For the
    final weights, the extraction is chosen on the validation set, and its AER is measured on the test sets.

    Does nothing for models without attention. Only the first process computes.
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
        """``extraction``, ``sentences`` and ``aer`` by split as plain data, or None if no AER was measured."""
        if self.extraction is None:
            return None
        return {"extraction": asdict(self.extraction), "sentences": self.sentences, "aer": self.error_rates}

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero and self.sentences and pl_module.model.attention_heads:
            (records := _records(trainer)).path.parent.mkdir(exist_ok=True)
            records.start(after_step=trainer.global_step)  # a resumed run repeats the steps after its checkpoint

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        text = pl_module.data.texts[pl_module.data.validated[0]]
        pairs = self._attend(trainer, pl_module, text)
        if not pairs:
            return
        rates: Floats | None = None
        if (counts := _count_matches(pairs, text)) is not None:
            pl_module.log(METRIC, float((rates := aer(counts)).min()), rank_zero_only=True, logger=False)
        rows = []
        for kind, entropies in _mean_entropies(pairs).items():
            for (layer, head), entropy in np.ndenumerate(entropies):
                rate = float(rates[:, layer, head].min()) if kind == "cross" and rates is not None else None
                rows.append((trainer.global_step, kind, layer + 1, head + 1, float(entropy), rate))
        _records(trainer).append(*(dict(zip(FIELDS, row, strict=True)) for row in rows))

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.extraction, self.error_rates = None, {}
        for split in pl_module.data.evaluated:
            text = pl_module.data.texts[split]
            counts = _count_matches(self._attend(trainer, pl_module, text), text) if text.meta else None
            if counts is None:
                continue
            if self.extraction is None:
                assert split in pl_module.data.validated, "the extraction is chosen before a test set is evaluated"
                self.extraction = best_extraction(aer(counts))
            self.error_rates[split] = float(aer(counts)[self.extraction.index])

    def _attend(self, trainer: L.Trainer, module: Any, text: ParallelText) -> list[Attended]:
        """Return the maps of the first sentences; in other processes and for models without attention, none."""
        if not (trainer.is_global_zero and self.sentences and module.model.attention_heads):
            return []
        attended: list[Attended] = module.translator.attend(text.src[: self.sentences], text.tgt[: self.sentences])
        return attended


def _mean_entropies(pairs: Sequence[Attended]) -> dict[str, Floats]:
    """Return by kind of attention the mean `normalized_entropy` of each head over the positions of all pairs: "L H"."""
    rows = defaultdict(list)
    for maps in (maps for pair in pairs for maps in pair.map_sets):
        rows[maps.kind].append(normalized_entropy(maps.weights, causal=maps.kind == "decoder_self"))
    return {kind: np.nanmean(np.concatenate(found, axis=-1), axis=-1) for kind, found in rows.items()}


def _count_matches(pairs: Sequence[Attended], text: ParallelText) -> MatchCounts | None:
    """Return `match_counts` of all extractions, "2 L H 4", summed over pairs; None if there is nothing to count."""
    counts = []
    for pair, meta in zip(pairs, text.meta or (), strict=False):
        if pair.cross is not None:
            words = split_punctuation(pair.source), split_punctuation(pair.target)
            maps = candidate_maps(pair.cross, pair.src_pieces, pair.tgt_pieces, *words)
            counts.append(match_counts(align(maps, "target"), annotated_gold(meta)))
    total: MatchCounts | None = np.sum(counts, axis=0) if counts else None
    return total


def _records(trainer: L.Trainer) -> CSVRecords:
    return CSVRecords(Path(trainer.default_root_dir, ATTENTION, HEADS), FIELDS)
