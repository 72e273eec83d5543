"""What accompanies training: the books of a run, its checkpoints, and its end."""

import csv
import math
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, Timer
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from heed.data.datamodule import StepShard, TranslationData
from heed.files import replacing
from heed.options import AtLeast0, AtLeast1, Range
from heed.runs.selection import Selection
from heed.training.callbacks.alignment_error_rate import AlignmentErrorRate
from heed.training.callbacks.attention_maps import DrawMaps
from heed.training.callbacks.checkpoints import Checkpoints, find_checkpoints
from heed.training.callbacks.ema import EMA
from heed.training.callbacks.signals import StopOnSignal
from heed.training.loggers import log_table

Kept = Annotated[int, Range(-1)]
"""Checkpoints; -1: all."""


class MetricsLogger(Callback):
    """Counts tokens, padding and seconds over all resumes, and tells: terminal, ``metrics.csv``, loggers.

    ``metrics.csv`` holds nothing that depends on the clock, so that two runs of one command write the same file; and
    what was summed since its last row is in every checkpoint, so that a resumed run writes it too.
    """

    FIELDS = (
        "step", "epoch", "lr", "loss", "nll", "grad_norm",
        "valid_loss", "valid_bleu", "valid_chrf", "valid_comet", "valid_aer",
    )  # fmt: skip
    SUMS = ("loss_sum", "nll_sum", "tokens")
    """Of the training steps since the last row, skipped ones left out: on the device, each process's own part."""

    def __init__(self, folder: Path, *, log_every: int) -> None:
        self.path = folder / "metrics.csv"
        self.log_every = log_every
        self.totals = {"src_tokens": 0, "tgt_tokens": 0, "padded_tokens": 0, "step_seconds": 0.0, "fit_seconds": 0.0}
        self.epoch = 0
        self._sums = torch.zeros(len(self.SUMS))
        self._grad_norm = torch.zeros(())
        self._speed = (0, 0.0)  # tokens, and the seconds they took, since the last row of this process
        self._restored: Tensor | None = None
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
        """The fraction of all token positions of all batches that was padding."""
        used = self.totals["src_tokens"] + self.totals["tgt_tokens"]
        return 1 - used / max(self.totals["padded_tokens"], 1)

    @property
    def train_seconds(self) -> float:
        """Wall time of fit, validation included, summed over resumes."""
        return self.totals["fit_seconds"]

    def state_dict(self) -> dict[str, Any]:
        """All processes call it: each one's sums are in every checkpoint."""
        self._tick()
        return {**self.totals, "epoch": self.epoch, "sums": _gather(self._sums).cpu()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.totals = {key: state_dict[key] for key in self.totals}
        self._restored = state_dict.get("sums")

    def _tick(self) -> None:
        now = time.perf_counter()
        self.totals["fit_seconds"] += now - self._clock
        self._clock = now

    # ---- Lightning's hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._clock = time.perf_counter()
        self._planned_steps = planned_steps(trainer, trainer.datamodule)
        self._reset(pl_module.device)
        if self._restored is not None:
            # On as many processes as before each goes on with its own sums; else the first one with all of them.
            same, rank = len(self._restored) == trainer.world_size, trainer.global_rank
            ours = self._restored[rank] if same else self._restored.sum(0) * (rank == 0)
            self._sums += ours.to(self._sums)
            self._restored = None
        if trainer.is_global_zero:
            self._open(trainer.global_step)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: StepShard, batch_idx: int
    ) -> None:
        self._step_clock = time.perf_counter()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShard, batch_idx: int
    ) -> None:
        seconds = time.perf_counter() - self._step_clock
        self.epoch = batch.epoch
        for key in ("src_tokens", "tgt_tokens", "padded_tokens"):
            self.totals[key] += getattr(batch, key)
        self.totals["step_seconds"] += seconds
        tokens, before = self._speed
        self._speed = tokens + batch.src_tokens + batch.tgt_tokens, before + seconds
        self._sums += torch.stack([outputs[name] for name in self.SUMS])
        self._grad_norm = outputs["grad_norm"]
        if trainer.global_step % self.log_every == 0:
            self._report(trainer, pl_module)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or not trainer.is_global_zero:
            return
        metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        known = [key for key in ("loss", "bleu", "chrf", "comet", "aer") if f"valid/{key}" in metrics]
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

    def _reset(self, device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self._sums = torch.zeros(len(self.SUMS), device=device, dtype=exact)
        self._speed = (0, 0.0)

    def _report(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Write one row of metrics for the steps since the last one, and stop a run that has diverged.

        All processes call it: losses are summed over them. It is the one place where training waits for the device.
        """
        loss_sum, nll_sum, tokens = _gather(self._sums).sum(0).tolist()
        skipped, in_a_row = module.skipped.counts.tolist()
        numbers = {
            "loss": loss_sum / tokens if tokens else math.nan,
            "nll": nll_sum / tokens if tokens else math.nan,
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "grad_norm": self._grad_norm.item(),
        }
        row = {name: number for name, number in numbers.items() if math.isfinite(number)}
        speed = self._speed[0] / max(self._speed[1], 1e-9)
        self._reset(module.device)
        if trainer.is_global_zero:
            self._tell(trainer, row, speed, skipped)
        if in_a_row:
            last = find_checkpoints(trainer.callbacks).last
            module.skipped.check(in_a_row, step=trainer.global_step, checkpoint=last[0] if last else None)

    def _tell(self, trainer: L.Trainer, row: dict[str, float], speed: float, skipped: int) -> None:
        self._write({"step": trainer.global_step, "epoch": self.epoch, **row})
        logged = {f"train/{key}": value for key, value in row.items()}
        logged |= {"train/tokens_per_second": speed, "train/padding": self.padding, "train/epoch": self.epoch}
        logged |= {"train/skipped_steps": skipped} if skipped else {}
        for logger in trainer.loggers:
            logger.log_metrics(logged, step=trainer.global_step)
        goal = f"/{trainer.max_steps}" if trainer.max_steps > 0 else ""
        loss = f"{row['loss']:.3f}" if "loss" in row else "not finite"
        skips = f"  {skipped:,} steps skipped" if skipped else ""
        self._say(
            f"step {trainer.global_step:>6}{goal}  epoch {self.epoch}  loss {loss}  "
            f"lr {row['lr']:.2e}  {speed:,.0f} tokens/s{skips}  ({self._time(trainer)})",
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
        """Forget what was written after this step, which a resumed run repeats. The file is replaced as a whole."""
        kept = [row for row in _whole_rows(self.path) if int(row["step"]) <= step]
        with replacing(self.path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.FIELDS)
            writer.writeheader()
            writer.writerows({field: row.get(field) for field in self.FIELDS} for row in kept)

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.FIELDS).writerow(
                {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
            )


def _whole_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a metrics file, without those that a kill or a full disk cut off."""
    if not path.is_file():
        return []
    # Without its line end the last row may be the beginning of another number: 12 of 120.
    text, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    rows = csv.DictReader(text.splitlines(), restkey="surplus")
    return [
        row for row in rows if "surplus" not in row and None not in row.values() and (row["step"] or "").isdecimal()
    ]


def _gather(tensor: Tensor) -> Tensor:
    """One row for each process."""
    if not torch.distributed.is_initialized():
        return tensor[None].clone()
    parts = [torch.empty_like(tensor) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(parts, tensor)
    return torch.stack(parts)


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
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShard, batch_idx: int
    ) -> None:
        if batch.last or trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


class EarlyStopping(Callback):
    """Stops after ``patience`` validations without a better one, as the same `Selection` judges that keeps checkpoints.

    Lightning's compares one number: where BLEU stays at 0.00 it would stop a model whose loss still falls.
    """

    def __init__(self, selection: Selection, *, patience: int) -> None:
        self.selection, self.patience = selection, patience
        self.best: tuple[float, ...] | None = None
        self.waited = 0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.waited = state_dict["best"], state_dict["waited"]

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING:
            return
        key = self.selection.key(pl_module.validation_scores)
        if self.best is None or key > self.best:
            self.best, self.waited = key, 0
        else:
            self.waited += 1
        if self.waited >= self.patience:
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
    selection: Selection,
    log_every: AtLeast1,
    sample_translations: AtLeast0,
    aer_sentences: AtLeast0,
    maps: AtLeast0,
    keep_best: Kept,
    keep_last: Kept,
    early_stopping: AtLeast1 | None,
    ema: Annotated[float, Range(above=0, below=1)] | None,
) -> list[Callback]:
    """The journal, and after each validation checkpoints: the best so far, and the last, also at a signal.

    Args:
        early_stopping: stop after so many validations without a better one; None: never.
        ema: decay of a moving average of the weights, see `EMA`; None: no average.
    """
    checkpoints = Checkpoints(folder / "checkpoints", selection=selection, keep_best=keep_best, keep_last=keep_last)
    callbacks: list[Callback] = [MetricsLogger(folder, log_every=log_every), EndWithValidation(), checkpoints]
    if sample_translations:
        callbacks.append(SampleTranslations(sample_translations))
    if aer_sentences:
        callbacks.append(AlignmentErrorRate(sentences=aer_sentences))
    if maps:
        callbacks.append(DrawMaps(folder, count=maps))
    if early_stopping:
        callbacks.append(EarlyStopping(selection, patience=early_stopping))
    if ema is not None:
        callbacks.append(EMA(decay=ema))
    callbacks.append(StopOnSignal(checkpoints))
    return callbacks
