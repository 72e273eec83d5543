"""Translations of the same sentences at every validation."""

import math
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.options import AtLeast0
from heed.runs.records import SAMPLES, is_kept, keep_json_lines
from heed.training.loggers import log_table


class SampleTranslations(Callback):
    """Logs source, reference and translation of some validation sentences at every validation.

    ``sentences`` says about how many, evenly spaced in each validation set; 0: none. The loggers get a table. In the
    run folder, ``samples.jsonl`` has a line for each validation and validation set.
    """

    def __init__(self, *, sentences: AtLeast0) -> None:
        self.sentences = sentences

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:  # a resumed run repeats the steps after its checkpoint
            keep_json_lines(_file(trainer), lambda step: step <= trainer.global_step)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.sentences == 0:
            return
        now, records = trainer.global_step, []
        for name in pl_module.data.sets.validated:
            valid, translations = pl_module.data.sets.texts[name], pl_module.results[name].translations
            sampled = range(0, len(valid), math.ceil(len(valid) / self.sentences))
            texts = {"source": valid.src, "reference": valid.tgt, "translation": translations}
            columns: dict[str, list[str]] = {key: [lines[i] for i in sampled] for key, lines in texts.items()}
            rows = list(zip(*columns.values(), strict=True))
            log_table(trainer.loggers, f"{name}/translations", tuple(columns), rows, step=now)
            records.append({"step": now, "set": name, **columns})
        if trainer.is_global_zero:
            every: Any = trainer.val_check_interval
            keep_json_lines(_file(trainer), lambda step: is_kept(step, now=now, every=every), records)


def _file(trainer: L.Trainer) -> Path:
    return Path(trainer.default_root_dir, SAMPLES)
