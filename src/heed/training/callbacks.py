"""What accompanies training: the books of a run, its checkpoints, and its end."""

import csv
import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.trainer.states import TrainerFn

from heed.data.datamodule import StepShare

BLEU = "valid/bleu"


class Journal(Callback):
    """Counts tokens, padding and seconds over all resumes, and tells: terminal, ``metrics.csv``, loggers.

    ``metrics.csv`` holds nothing that depends on the clock, so that two runs of one command write the same file.
    """

    FIELDS = ("step", "epoch", "lr", "loss", "nll", "grad_norm", "valid_loss", "valid_bleu", "valid_chrf")

    def __init__(self, folder: Path, *, log_every: int) -> None:
        self.path = folder / "metrics.csv"
        self.log_every = log_every
        self.totals = {"src_tokens": 0, "tgt_tokens": 0, "cells": 0, "step_seconds": 0.0, "fit_seconds": 0.0}
        self.epoch = 0
        self._interval: dict[str, Any] = {}
        self._clock = 0.0
        self._step_clock = 0.0
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
        row = {f"valid_{key}": metrics[f"valid/{key}"] for key in ("loss", "bleu", "chrf")}
        self._write({"step": trainer.global_step, "epoch": self.epoch, **row})
        self._say(
            f"step {trainer.global_step:>6}  epoch {self.epoch}  valid: loss {row['valid_loss']:.3f}  "
            f"BLEU {row['valid_bleu']:.2f}  chrF {row['valid_chrf']:.2f}  ({self._elapsed()})"
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
            f"lr {row['lr']:.2e}  {speed:,.0f} tokens/s  ({self._elapsed()})",
            passing=True,
        )

    def _elapsed(self) -> str:
        self._tick()
        minutes, seconds = divmod(round(self.train_seconds), 60)
        return f"{minutes}:{seconds:02} min"

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


class EndWithValidation(Callback):
    """A run of any length ends with a validation and a checkpoint: the last step asks Lightning to stop after one."""

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShare, batch_idx: int
    ) -> None:
        if batch.last or trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


def build_callbacks(
    *, folder: Path, log_every: int, keep_best: int, keep_last: int, early_stopping: int | None
) -> list[Callback]:
    """The journal, and after each validation checkpoints: the best so far by BLEU, and the last.

    Args:
        early_stopping: stop after so many validations without a better BLEU; None: never.
    """
    saving: dict[str, Any] = {
        "dirpath": folder / "checkpoints",
        "auto_insert_metric_name": False,
        "enable_version_counter": False,
    }
    callbacks: list[Callback] = [
        Journal(folder, log_every=log_every),
        EndWithValidation(),
        ModelCheckpoint(monitor=BLEU, mode="max", save_top_k=keep_best, filename="best-{step:07d}", **saving),
        ModelCheckpoint(monitor="step", mode="max", save_top_k=keep_last, filename="last-{step:07d}", **saving),
    ]
    if early_stopping:
        callbacks.append(EarlyStopping(monitor=BLEU, mode="max", patience=early_stopping))
    return callbacks
