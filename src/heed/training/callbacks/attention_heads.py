"""What each attention head does: entropy, and alignment error rate (AER), at every validation and finally."""

from collections import defaultdict
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback

from heed.data.text.source import Sentences
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
from heed.evaluation.significance import Floats
from heed.evaluation.words import AttentionMap, split_punctuation
from heed.options import AtLeast0
from heed.runs.records import ATTENTION, HEADS, CSVRecords

METRIC = "valid/aer"
FIELDS = ("step", "attention", "layer", "head", "entropy", "aer")
"""Columns of ``attention/heads.csv``."""
MEASURED_AT_ONCE = 20
"""Sentence pairs with attention maps in memory at a time: those of a large model take several MB each."""


class MeasureAttentionHeads(Callback):
    """Measures every head: the entropy of its attention, and the AER of the word alignment that it gives.

    Attention is computed for the first ``sentences`` of each split (0: none), with teacher forcing on the references.
    ``attention/heads.csv`` has a row for each validation and head of the first validation set:

    - ``entropy``: see `normalized_entropy`, the mean over positions;
    - ``aer``: of cross-attention, if the corpus has gold alignments: each target word aligns with its most attended
      word, in the output or the input row (`Extraction.row`), whichever has the lower AER.

    Every validation logs as ``valid/aer`` the AER of the best extraction (layer, head or mean of heads, row). For the
    final weights, the extraction is chosen on the validation set, and its AER is measured on the test sets.

    Does nothing for models without attention. Only the first process computes.
    """

    def __init__(self, *, sentences: AtLeast0) -> None:
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
        entropies, counts = self._measure(trainer, pl_module, pl_module.data.sets.validated[0])
        rates = None if counts is None else aer(counts)
        if rates is not None:
            pl_module.log(METRIC, float(rates.min()), rank_zero_only=True, logger=False)
        rows = []
        for kind, of_heads in entropies.items():
            for (layer, head), entropy in np.ndenumerate(of_heads):
                rate = float(rates[:, layer, head].min()) if kind == "cross" and rates is not None else None
                rows.append((trainer.global_step, kind, layer + 1, head + 1, float(entropy), rate))
        if rows:
            _records(trainer).append(*(dict(zip(FIELDS, row, strict=True)) for row in rows))

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.extraction, self.error_rates = None, {}
        for split in pl_module.data.sets.evaluated:
            if pl_module.data.sets.texts[split].meta is None:
                continue
            _, counts = self._measure(trainer, pl_module, split)
            if counts is None:
                continue
            if self.extraction is None:
                assert split in pl_module.data.sets.validated, "the extraction is chosen before a test set is evaluated"
                self.extraction = best_extraction(aer(counts))
            self.error_rates[split] = float(aer(counts)[self.extraction.index])

    def _measure(self, trainer: L.Trainer, module: Any, split: str) -> tuple[dict[str, Floats], MatchCounts | None]:
        """Measure the first sentences of a split.

        Returns:
            By kind of attention the mean `normalized_entropy` of each head over all positions, "L H"; empty in other
            processes and for models without attention. And `match_counts` of all extractions, "2 L H 4", summed over
            sentences; None if there is nothing to count.
        """
        rows, counts = defaultdict(list), []
        text: Sentences = module.data.sets.texts[split]
        number = min(len(text), self.sentences) if trainer.is_global_zero and module.model.attention_heads else 0
        for start in range(0, number, MEASURED_AT_ONCE):
            some = slice(start, min(start + MEASURED_AT_ONCE, number))
            metas = repeat(None) if text.meta is None else text.meta[some]
            for pair, meta in zip(module.translator.attend(text.src[some], text.tgt[some]), metas, strict=False):
                for maps in pair.map_sets:
                    rows[maps.kind].append(normalized_entropy(maps.weights, causal=maps.kind == "decoder_self"))
                if pair.cross is not None and meta is not None:
                    words = split_punctuation(pair.source), split_punctuation(pair.target)
                    candidates = candidate_maps(pair.cross, pair.src_pieces, pair.tgt_pieces, *words)
                    counts.append(match_counts(align(candidates, "target"), annotated_gold(meta)))
        found = {kind: np.concatenate(of_pairs, axis=-1) for kind, of_pairs in rows.items()}
        with np.errstate(invalid="ignore"):  # a model that diverged has only NaN
            means = {kind: np.nansum(values, axis=-1) / np.isfinite(values).sum(-1) for kind, values in found.items()}
        return means, np.sum(counts, axis=0) if counts else None


def normalized_entropy(weights: AttentionMap, *, causal: bool = False) -> Floats:
    """Return H(α) / log K of each row "… Q K": 0 if it attends to one key, 1 if to all K keys alike.

    A row is divided by its sum, which may be less than 1 with ``reach=local_p``. Rows with a single key, or without
    weights, have no entropy: NaN.

    Args:
        causal: row t has the keys up to t, instead of all.
    """
    queries, keys = weights.shape[-2:]
    with np.errstate(invalid="ignore"):  # 0 / 0, 0 / log 1
        weights = weights / weights.sum(-1, keepdims=True)
        log = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        return -(weights * log).sum(-1) / np.log(np.arange(queries) + 1.0 if causal else keys)


def _records(trainer: L.Trainer) -> CSVRecords:
    return CSVRecords(Path(trainer.default_root_dir, ATTENTION, HEADS), FIELDS)
