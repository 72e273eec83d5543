"""What accompanies training: the books of a run, its checkpoints, and its end."""

import csv
import math
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, Timer
from lightning.pytorch.trainer.states import TrainerFn

from heed.data.datamodule import StepShare, TranslationData
from heed.knobs import AtLeast0, AtLeast1, Range
from heed.training.alignment import AlignmentErrorRate
from heed.training.ema import EMA
from heed.training.interrupt import StopOnSignal
from heed.training.loggers import log_table
from heed.training.maps import DrawMaps

BLEU = "valid/bleu"

Kept = Annotated[int, Range(-1)]
"""Checkpoints; -1: all."""


class Journal(Callback):
    """Counts tokens, padding and seconds over all resumes, and tells: terminal, ``metrics.csv``, loggers.

    ``metrics.csv`` holds nothing that depends on the clock, so that two runs of one command write the same file.
    """

    FIELDS = ("step", "epoch", "lr", "loss", "nll", "grad_norm", "valid_loss", "valid_bleu", "valid_chrf", "valid_aer")

    def __init__(self, folder: Path, *, log_every: int) -> None:
        self.path = folder / "metrics.csv"
        self.log_every = log_every
        self.totals = {"src_tokens": 0, "tgt_tokens": 0, "cells": 0, "step_seconds": 0.0, "fit_seconds": 0.0}
        self.epoch = 0
        self._interval: dict[str, Any] = {}
        self._clock = 0.0
        self._step_clock = 0.0
        self._planned_steps: int | None = None
        self._told = False
        self._terminal = sys.stderr.isatty()

    # ---- the books

    @property
    def tokens_per_second(self) -> float:
        """Non-pad source and target tokens, EOS counted, per second of training steps (validation excluded)."""
        return (self.totals["src_tokens"] + self.totals["tgt_tokens"]) / max(self.totals["step_seconds"], 1e-9)

    @property
    def padding(self) -> float:
        """The fraction of all cells of all batches that was padding."""
        used = self.totals["src_tokens"] + self.totals["tgt_tokens"]
        return 1 - used / max(self.totals["cells"], 1)

    @property
    def train_seconds(self) -> float:
        """Wall time of fit, validation included, summed over resumes."""
        return self.totals["fit_seconds"]

    def state_dict(self) -> dict[str, Any]:
        self._tick()
        return {**self.totals, "epoch": self.epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.totals = {key: state_dict[key] for key in self.totals}

    def _tick(self) -> None:
        now = time.perf_counter()
        self.totals["fit_seconds"] += now - self._clock
        self._clock = now

    # ---- Lightning's hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._clock = time.perf_counter()
        self._planned_steps = planned_steps(trainer, trainer.datamodule)
        self._reset()
        if trainer.is_global_zero:
            self._open(trainer.global_step)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: StepShare, batch_idx: int
    ) -> None:
        self._step_clock = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShare, batch_idx: int
    ) -> None:
        seconds = time.perf_counter() - self._step_clock
        self.epoch = batch.epoch
        for key in ("src_tokens", "tgt_tokens", "cells"):
            self.totals[key] += getattr(batch, key)
        self.totals["step_seconds"] += seconds
        interval = self._interval
        interval["tokens"] += batch.src_tokens + batch.tgt_tokens
        interval["tgt_tokens"] += batch.tgt_tokens
        interval["seconds"] += seconds
        for key in ("loss_sum", "nll_sum"):
            interval[key] = interval[key] + outputs[key]
        interval["grad_norm"] = outputs["grad_norm"]
        if trainer.global_step % self.log_every == 0:
            self._report(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or not trainer.is_global_zero:
            return
        metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        known = [key for key in ("loss", "bleu", "chrf", "aer") if f"valid/{key}" in metrics]
        row = {f"valid_{key}": metrics[f"valid/{key}"] for key in known}
        aer = f"  AER {row['valid_aer']:.3f}" if "aer" in known else ""
        self._write({"step": trainer.global_step, "epoch": self.epoch, **row})
        for logger in trainer.loggers:
            logger.log_metrics({f"valid/{key}": metrics[f"valid/{key}"] for key in known}, step=trainer.global_step)
        self._say(
            f"step {trainer.global_step:>6}  epoch {self.epoch}  valid: loss {row['valid_loss']:.3f}  "
            f"BLEU {row['valid_bleu']:.2f}  chrF {row['valid_chrf']:.2f}{aer}  ({self._time(trainer)})"
        )

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._tick()

    # ---- telling

    def _reset(self) -> None:
        self._interval = {"tokens": 0, "tgt_tokens": 0, "seconds": 0.0, "loss_sum": 0.0, "nll_sum": 0.0}

    def _report(self, trainer: L.Trainer) -> None:
        """One line of metrics for the steps since the last one. All processes call it: losses are summed over them."""
        interval = self._interval
        sums = torch.stack((interval["loss_sum"], interval["nll_sum"]))
        if trainer.world_size > 1:
            torch.distributed.all_reduce(sums)
        loss, nll = (sums / interval["tgt_tokens"]).tolist()
        row = {
            "loss": loss,
            "nll": nll,
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "grad_norm": interval["grad_norm"].item(),
        }
        speed = interval["tokens"] / max(interval["seconds"], 1e-9)
        self._reset()
        if not trainer.is_global_zero:
            return
        self._write({"step": trainer.global_step, "epoch": self.epoch, **row})
        logged = {f"train/{key}": value for key, value in row.items()}
        logged |= {"train/tokens_per_second": speed, "train/padding": self.padding, "train/epoch": self.epoch}
        for logger in trainer.loggers:
            logger.log_metrics(logged, step=trainer.global_step)
        goal = f"/{trainer.max_steps}" if trainer.max_steps > 0 else ""
        self._say(
            f"step {trainer.global_step:>6}{goal}  epoch {self.epoch}  loss {row['loss']:.3f}  "
            f"lr {row['lr']:.2e}  {speed:,.0f} tokens/s  ({self._time(trainer)})",
            # A log file, too, learns early on how fast it goes and how long it will take.
            passing=self._told,
        )
        self._told = True

    def _time(self, trainer: L.Trainer) -> str:
        """What training took so far, and where the limits tell, what it will take in all at this pace."""
        self._tick()
        timers = [callback for callback in trainer.callbacks if isinstance(callback, Timer)]  # max_time is one
        ends = [self.train_seconds + timer.time_remaining() for timer in timers]
        if self._planned_steps:
            ends.append(self.train_seconds / trainer.global_step * self._planned_steps)
        whole = f" of about {_minutes(max(min(ends), self.train_seconds))}" if ends else ""
        return f"{_minutes(self.train_seconds)}{whole} min"

    def _say(self, line: str, *, passing: bool = False) -> None:
        """``passing``: a terminal shows it until the next line replaces it; a log file never sees it."""
        if passing:
            if self._terminal:
                sys.stderr.write(f"\r\033[K{line}")
        else:
            sys.stderr.write(f"\r\033[K{line}\n" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def _open(self, step: int) -> None:
        """A resumed run goes on after the step of its checkpoint: what was written beyond it never happened."""
        kept = []
        if self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                kept = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
        with self.path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.FIELDS)
            writer.writeheader()
            writer.writerows(kept)

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.FIELDS).writerow(
                {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
            )


class SampleTranslations(Callback):
    """What becomes of the same few sentences from one validation to the next, as a table in the loggers.

    Args:
        count: sentences, spread evenly over the validation set.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            return
        valid, (_, _, translations) = pl_module.data.datasets["valid"], pl_module.results["valid"]
        picked = range(0, len(valid), math.ceil(len(valid) / self.count))
        log_table(
            trainer.loggers,
            "valid/translations",
            ("source", "reference", "translation"),
            [(valid[i]["src"], valid[i]["tgt"], translations[i]) for i in picked],
            step=trainer.global_step,
        )


class EndWithValidation(Callback):
    """A run of any length ends with a validation and a checkpoint: the last step asks Lightning to stop after one."""

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShare, batch_idx: int
    ) -> None:
        if batch.last or trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


def planned_steps(trainer: L.Trainer, data: TranslationData) -> int | None:
    """The steps that ``max_steps`` and ``max_epochs`` allow, whole epochs by estimate; None: neither is set."""
    limits = [trainer.max_steps] if trainer.max_steps > 0 else []
    if trainer.max_epochs and trainer.max_epochs > 0:
        limits.append(math.ceil(trainer.max_epochs * data.train_tgt_tokens / data.planner.batch_tokens))
    return min(limits, default=None)


def _minutes(seconds: float) -> str:
    return "{}:{:02}".format(*divmod(round(seconds), 60))


def build_callbacks(
    *,
    folder: Path,
    log_every: AtLeast1,
    sample_translations: AtLeast0,
    aer_sentences: AtLeast0,
    maps: AtLeast0,
    keep_best: Kept,
    keep_last: Kept,
    early_stopping: AtLeast1 | None,
    ema: Annotated[float, Range(above=0, below=1)] | None,
) -> list[Callback]:
    """The journal, and after each validation checkpoints: the best so far by BLEU, and the last, also at a signal.

    Args:
        early_stopping: stop after so many validations without a better BLEU; None: never.
        ema: decay of a moving average of the weights, see `EMA`; None: no average.
    """
    saving: dict[str, Any] = {
        "dirpath": folder / "checkpoints",
        "auto_insert_metric_name": False,
        "enable_version_counter": False,
    }
    last = ModelCheckpoint(monitor="step", mode="max", save_top_k=keep_last, filename="last-{step:07d}", **saving)
    callbacks: list[Callback] = [
        Journal(folder, log_every=log_every),
        EndWithValidation(),
        ModelCheckpoint(monitor=BLEU, mode="max", save_top_k=keep_best, filename="best-{step:07d}", **saving),
        last,
    ]
    if sample_translations:
        callbacks.append(SampleTranslations(sample_translations))
    if aer_sentences:
        callbacks.append(AlignmentErrorRate(sentences=aer_sentences))
    if maps:
        callbacks.append(DrawMaps(folder, count=maps))
    if early_stopping:
        callbacks.append(EarlyStopping(monitor=BLEU, mode="max", patience=early_stopping))
    if ema is not None:
        callbacks.append(EMA(decay=ema))
    callbacks.append(StopOnSignal(last))
    return callbacks
