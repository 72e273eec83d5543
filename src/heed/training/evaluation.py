"""Evaluate a model on evaluation sets over all processes: loss, translations, scores."""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import lightning as L
import torch

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch
from heed.data.steps.stream import EvaluationSets
from heed.decoding import Search
from heed.evaluation.scores import Metric, Scores, SystemOutput, score_output
from heed.models.seq2seq import TrainableSeq2Seq


class SplitResult(NamedTuple):
    """The evaluation of one split, over all processes."""

    scores: Scores
    loss: float
    """Mean negative log-likelihood in nats per target token."""
    translations: list[str]
    """In the order of the split."""
    decode_seconds: float
    """Search time, summed over processes."""


@dataclass
class SplitOutputs:
    """What one process has computed so far on its batches of a split."""

    translations: list[tuple[int, list[int]]] = field(default_factory=list)
    """(row in the split, token ids)."""
    nll: float = 0.0
    """Summed over target tokens, in nats."""
    tgt_tokens: int = 0
    decode_seconds: float = 0.0


class Evaluator:
    """Collects the outputs of batches by split, and scores them when a split is complete."""

    def __init__(self, model: TrainableSeq2Seq, tokenizer: Tokenizer, metrics: Mapping[str, Metric]) -> None:
        self.model, self.tokenizer, self.metrics = model, tokenizer, metrics
        self.outputs: defaultdict[str, SplitOutputs] = defaultdict(SplitOutputs)

    def add(self, split: str, batch: Batch, search: Search) -> None:
        """Compute loss and translations of a batch, and add them to the outputs of its split."""
        outputs = self.outputs[split]
        hidden = self.model.decode_hidden(batch.src, batch.src_mask, batch.tgt_in, src_lengths=batch.src_lengths)
        (positions,) = batch.tgt_positions
        _, nll = hidden.loss(batch.tgt_out, positions, label_smoothing=0.0)
        outputs.nll += nll.item()
        outputs.tgt_tokens += batch.tgt_tokens
        start = time.perf_counter()
        # Search in fp32, so that a translation does not depend on the other sentences of its batch.
        with torch.autocast(batch.src.device.type, enabled=False):
            hypotheses = search(self.model, batch.src, batch.src_mask)
        outputs.decode_seconds += time.perf_counter() - start
        outputs.translations += zip(batch.index.tolist(), (best[0].tokens for best in hypotheses), strict=True)

    def take(self, split: str, search: Search, sets: EvaluationSets, trainer: L.Trainer) -> SplitResult:
        """Collect the outputs of all processes for a split, translated by ``search``, and return them with scores."""
        own = self.outputs.pop(split, SplitOutputs())
        outputs = [own] * trainer.world_size
        if trainer.world_size > 1:
            torch.distributed.all_gather_object(outputs, own)
        rows = sorted(row for part in outputs for row in part.translations)
        translations = self.tokenizer.decode_tgt([tokens for _, tokens in rows])
        text = sets.texts[split]
        assert len(rows) == len(text), "each sentence is evaluated exactly once"
        seconds = sum(part.decode_seconds for part in outputs)
        nll, tokens = sum(part.nll for part in outputs), sum(part.tgt_tokens for part in outputs)
        scores = None
        if trainer.is_global_zero:
            output = SystemOutput(
                hypotheses=translations,
                references=[text.tgt],
                sources=text.src,
                tgt_lang=sets.directions[split].tgt_lang,
                likelihood=lambda: (nll, tokens),
                maximized=search.utility,
            )
            scores = score_output(output, self.metrics)
        return SplitResult(trainer.strategy.broadcast(scores), nll / tokens, translations, seconds)
