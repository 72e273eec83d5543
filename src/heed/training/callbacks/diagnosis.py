"""Says why a model is bad: gathers what is known of a run, and prints and stores the diagnoses that are sure."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback
from torch.optim import Optimizer

from heed.data.datamodule import TranslationData
from heed.data.pairs.pairs import flatten
from heed.data.text.corpus import Corpus
from heed.evaluation.diagnosis import NOTABLE, Facts, compare_with_start, diagnose, is_notable, symptom_shares
from heed.evaluation.parallel_text import Fault, Sides, find_faults
from heed.languages import Direction
from heed.progress import print_line
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.records import DIAGNOSES, keep_json_lines, read_csv, read_json_lines
from heed.runs.results import INITIAL_SCORES
from heed.training.callbacks.metrics import MetricsLogger
from heed.training.module import TranslationModule
from heed.training.muon import Muon
from heed.training.schedules import planned_steps

SAMPLED_PAIRS, SAMPLED_PARTS = 4_000, 4
"""Training pairs that are examined before the first step, in about a second, and the parts of a text they come from."""


class Diagnosis(Callback):
    """Prints each diagnosis of `heed.evaluation.diagnosis` once in a run, and appends it to `DIAGNOSES`.

    Of several validation sets, the first one is examined. ``init_from`` is the model that is fine-tuned, if any.
    """

    def __init__(self, *, init_from: str | None) -> None:
        self.fine_tuned = init_from is not None
        self.facts: Facts | None = None
        self.latest: Facts | None = None
        """The facts at the latest validation."""

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero:
            data, facts = pl_module.data, known_facts(trainer, pl_module, pl_module.data, fine_tuned=self.fine_tuned)
            self.facts = replace(facts, faults=_find_faults(data, facts))
            self._report(trainer, diagnose(self.facts))
            smaller = dict.fromkeys(fault.name for fault in self.facts.faults if not is_notable(fault))
            if smaller and not trainer.global_step:
                print_line(
                    f"The text has faults that matter less, or in fewer than {NOTABLE:.0%} of the pairs "
                    f"({', '.join(smaller)}): heed check names them, with their lines."
                )

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        rows = read_csv(Path(trainer.default_root_dir, METRICS_FILE))
        validations = [row for row in rows if row.get("valid_loss")]
        if self.facts is None or not validations:  # another process, a validation outside training, or a deleted file
            return
        reported = [float(row["nll"]) for row in rows if row["nll"]] or [math.inf]
        losses = [float(part.mean()) for part in np.array_split(reported, min(10, math.ceil(len(reported) / 2)))]
        *before, last = validations
        best = min((last, *reversed(before)), key=lambda row: float(row["valid_loss"]))
        earlier = [row for row in before if int(row["step"]) <= 0.75 * trainer.global_step]
        name = pl_module.data.sets.validated[0]
        self.latest = replace(
            self.facts,
            nll=losses[-1],
            lowest_nll=min(losses),
            peak_lr=max((float(row["lr"]) for row in rows if row["lr"]), default=0.0),
            step=trainer.global_step,
            loss=float(last["valid_loss"]),
            best_loss=float(best["valid_loss"]),
            loss_earlier=float(earlier[-1]["valid_loss"]) if len(earlier) > 2 else math.inf,
            best_step=int(best["step"]),
            bleu=float(last["valid_bleu"]),
            bleu_before=max((float(row["valid_bleu"]) for row in before), default=0.0),
            bleu_earlier=float(earlier[-1]["valid_bleu"]) if len(earlier) > 2 else math.inf,
            symptoms=symptom_shares(self.facts.text, self.facts.valid, pl_module.results[name].translations),
            padding=next(callback.padding for callback in trainer.callbacks if isinstance(callback, MetricsLogger)),
            skipped=pl_module.skipped.total,
        )
        self._report(trainer, diagnose(self.latest))

    def on_test_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        # Whatever ended the training, its end is certain here; a search that ends a run early does not test it.
        if self.latest is not None:
            self._report(trainer, diagnose(replace(self.latest, ends=True)))

    def on_test_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        file = Path(trainer.default_root_dir, INITIAL_SCORES)
        if trainer.is_global_zero and file.exists():  # after fine-tuning, not before it
            initial = json.loads(file.read_text(encoding="utf-8"))
            scores = {n: (initial[n]["bleu"], r.scores.bleu) for n, r in pl_module.results.items() if n in initial}
            self._report(trainer, compare_with_start(scores, pl_module.data.sets.validated))

    def _report(self, trainer: L.Trainer, found: Mapping[str, str]) -> None:
        """Print and store what the run, resumed or not, has not said before."""
        path = Path(trainer.default_root_dir, DIAGNOSES)
        said = {record["name"] for record in read_json_lines(path)}
        new = {name: message for name, message in found.items() if name not in said}
        for message in new.values():
            print_line(f"Diagnosis: {message}")
        step = trainer.global_step
        keep_json_lines(path, lambda _: True, ({"step": step, "name": name, "message": new[name]} for name in new))


def known_facts(trainer: L.Trainer, module: TranslationModule, data: TranslationData, *, fine_tuned: bool) -> Facts:
    """Return what is known of a run before its first step."""
    model = module.model.config
    reports = [text.clean.report for text in data.corpus.train.texts]
    sampled = sum(report.dropped.get("over max_train", 0) for report in reports)
    sets, pairs, first = data.sets, data.stream.pairs, data.sets.validated[0]
    valid, held_out = sets.encoded[first], sets.texts[first]
    text = sample_text(data.corpus, sets.directions[first])
    references = Sides(held_out.src, held_out.tgt)
    targets = pairs.read(np.arange(min(SAMPLED_PAIRS, len(pairs)))).tgt
    limits = module.greedy.max_length_factor * (valid.src_lengths + 1) + module.greedy.max_length_extra
    src, tgt = (
        np.array([pieces.is_unknown(piece) or pieces.is_byte(piece) for piece in range(pieces.get_piece_size())])
        for pieces in data.tokenizer.processors
    )
    counts = np.append(np.bincount(flatten(targets)[0]), len(targets))  # the last one is that of EOS
    frequency = counts[counts > 0] / counts.sum()
    return Facts(
        family=model.family,
        dropout=getattr(model, "dropout", 0.0),
        usual_lr=usual_lr(module.configure_optimizers()),
        fine_tuned=fine_tuned,
        pairs=len(pairs),
        chars=sum(report.chars for report in reports),
        vocab=data.tokenizer.tgt_vocab,
        warmup_steps=getattr(module.schedule, "warmup_steps", 0),
        planned_steps=planned_steps(trainer, data) or math.inf,
        batch_tokens=data.planner.batch_tokens,
        steps_per_epoch=data.stream.tgt_tokens / data.planner.batch_tokens,
        unigram_nll=float(-(frequency * np.log(frequency)).sum()),
        cut=float((valid.tgt_lengths + 1 > np.maximum(limits, 1)).mean()),
        beyond=float((valid.tgt_lengths + 1 > data.stream.longest[1]).mean()),
        unknown=max(
            float(known[flatten(ids)[0]].mean()) for known, ids in ((src, valid.src), (tgt, valid.tgt), (tgt, targets))
        ),
        has_words=data.tokenizer.has_words,
        target_length=text.length_ratio / references.length_ratio if len(text) else 1.0,
        dropped=1 - (len(data.corpus.train) + sampled) / sum(report.total for report in reports),
        text=text,
        valid=references,
    )


def _find_faults(data: TranslationData, facts: Facts) -> list[Fault]:
    """Return the faults of a sample of the training text, and of all sets that are scored."""
    samples = {data.sets.directions[data.sets.validated[0]]: facts.text}
    faults = find_faults(facts.text, facts.valid)
    for name, text in data.sets.texts.items():
        direction = data.sets.directions[name]
        if direction not in samples:
            samples[direction] = sample_text(data.corpus, direction)
        faults += find_faults(Sides(text.src, text.tgt), samples[direction], name)
    return faults


def usual_lr(optimizer: Optimizer) -> float | None:
    """Return a learning rate with which most models learn; None if the optimizer is neither Muon nor like Adam."""
    if isinstance(optimizer, Muon):
        return 1e-2
    return 1e-3 if "betas" in optimizer.defaults else None


def sample_text(corpus: Corpus, direction: Direction) -> Sides:
    """Return consecutive training pairs of a direction, from several parts of its texts."""
    src: list[str] = []
    tgt: list[str] = []
    texts = [text for text in corpus.train.directed if text.direction == direction]
    for text in texts:
        blocks, size = text.clean.blocks, SAMPLED_PAIRS // (SAMPLED_PARTS * len(texts))
        for part in range(SAMPLED_PARTS):
            block = text.read(blocks[len(blocks) * part // SAMPLED_PARTS])
            first, stop = (len(block) * edge // SAMPLED_PARTS for edge in (part, part + 1))
            src += block.src[first : min(stop, first + size)]
            tgt += block.tgt[first : min(stop, first + size)]
    return Sides(src, tgt)
