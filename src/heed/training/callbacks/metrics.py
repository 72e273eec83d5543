"""Training and validation metrics: ``metrics.csv``, the loggers, the terminal, and totals over the run."""

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, Timer
from torch import Tensor
from tqdm import tqdm

from heed.data.steps.batch import Batch
from heed.data.steps.stream import StepShard
from heed.progress import print_line, progress_bar
from heed.runs.checkpoints import METRICS_FILE
from heed.runs.records import SPEED, CSVRecords
from heed.training.schedules import planned_steps


class MetricsLogger(Callback):
    """Sums up losses, tokens and seconds, and reports them to ``metrics.csv``, the loggers and the terminal.

    Checkpoints contain all sums, so that a resumed run writes the same ``metrics.csv`` as an uninterrupted one. The
    file contains nothing that depends on the clock.
    """

    SUMS = ("loss_sum", "nll_sum", "tokens")
    """Outputs of the training step that are summed between two reports, on the device, for each process."""

    def __init__(self) -> None:
        counts = dict.fromkeys(("src_tokens", "tgt_tokens", "padded_tokens"), 0)
        self.totals: dict[str, float] = counts | dict.fromkeys(("step_seconds", "wait_seconds", "fit_seconds"), 0.0)
        """Over all processes and all resumes of the run."""
        self.epoch = 0
        self._bars = ExitStack()
        self._bar: Any = None
        self._sums = torch.zeros(len(self.SUMS))
        self._grad_norm = torch.zeros(())
        self._reported = self.totals.copy()
        """The totals at the last report."""
        self._wait_clock = 0.0
        self._fit_clock = 0.0
        self._step_clock: float | None = None
        """When the current step began, which is when the one before ended. None: training has not begun or pauses."""

    # ---- totals

    def speed(self, since: Mapping[str, int | float] | None = None) -> dict[str, float]:
        """Return ``tokens_per_second``, and ``data_wait``: the fraction of the time in which training waited for data.

        The tokens are non-pad source and target tokens, EOS included. The time includes waiting for data and for the
        device, other callbacks and loggers, but no validation.

        Args:
            since: totals to subtract; None: of the whole run.
        """
        new = {name: total - (since[name] if since else 0) for name, total in self.totals.items()}
        seconds = max(new["step_seconds"], 1e-9)
        tokens = new["src_tokens"] + new["tgt_tokens"]
        return {"tokens_per_second": tokens / seconds, "data_wait": new["wait_seconds"] / seconds}

    @property
    def padding(self) -> float:
        """The fraction of padding among all token positions of all batches."""
        used = self.totals["src_tokens"] + self.totals["tgt_tokens"]
        return 1 - used / max(self.totals["padded_tokens"], 1)

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Return totals and the current sums over all processes. All of them have to call it."""
        self._update_fit_seconds()
        return {**self.totals, "epoch": self.epoch, "sums": sum_over_processes(self._sums).cpu()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.totals = {key: state_dict[key] for key in self.totals}
        self._sums = state_dict["sums"]

    # ---- hooks

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._fit_clock = time.perf_counter()
        self._wait_clock, self._step_clock = 0.0, None
        steps = {"total": planned_steps(trainer, trainer.datamodule), "initial": trainer.global_step, "unit": "steps"}
        self._bar = self._bars.enter_context(progress_bar("Training", enabled=trainer.is_global_zero, **steps))
        restored = self._sums  # of all processes
        self._reset_sums(pl_module.device)
        if trainer.is_global_zero:
            self._sums += restored.to(self._sums)
            folder = Path(trainer.default_root_dir)
            self._metrics = CSVRecords(folder / METRICS_FILE, metrics_fields(pl_module.evaluator.metrics))
            self._speed = CSVRecords(folder / SPEED, ("step", "tokens", "seconds", "tokens_per_second", "data_wait"))
            for records in (self._metrics, self._speed):
                records.start(after_step=trainer.global_step)

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: Any, batch: StepShard, _: int) -> None:
        if self._step_clock is None:
            self._step_clock = time.perf_counter() - (trainer.datamodule.reading.wait_seconds - self._wait_clock)

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: StepShard, _: int) -> None:
        self.epoch = batch.passes
        for name in ("src_tokens", "tgt_tokens", "padded_tokens"):
            self.totals[name] += getattr(batch, name)
        self._sums += torch.stack([outputs[name] for name in self.SUMS])
        self._grad_norm = outputs["grad_norm"]
        self._bar.update()
        if trainer.global_step % trainer.log_every_n_steps == 0:
            self._report_training(trainer, pl_module)
        else:
            self._count_seconds(trainer)

    def _count_seconds(self, trainer: L.Trainer) -> None:
        """Add the time since the last step ended, in which training may have waited for data."""
        assert self._step_clock is not None
        now, waited = time.perf_counter(), trainer.datamodule.reading.wait_seconds
        self.totals["step_seconds"] += now - self._step_clock
        self.totals["wait_seconds"] += waited - self._wait_clock
        self._step_clock, self._wait_clock = now, waited

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._step_clock = None

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        found = {name: float(v) for name, v in trainer.callback_metrics.items() if name.startswith("valid/")}
        for logger in trainer.loggers:
            logger.log_metrics(found, step=trainer.global_step)
        names = ("loss", "bleu", "chrf", *pl_module.evaluator.metrics, "aer")
        scores = {key: found[f"valid/{key}"] for key in names if f"valid/{key}" in found}
        row = {f"valid_{key}": value for key, value in scores.items()}
        self._metrics.append({"step": trainer.global_step, "epoch": self.epoch, **row})
        self._update_fit_seconds()
        print_line(
            validation_line(trainer.global_step, scores, epoch=self.epoch, train_seconds=self.totals["fit_seconds"])
        )

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._bars.close()
        self._update_fit_seconds()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._bars.close()

    # ---- reports

    def _report_training(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Report the metrics since the last report. All processes have to call it.

        Training waits for the device only here and in `SkippedSteps`, at the same steps.
        """
        loss_sum, nll_sum, tokens = sum_over_processes(self._sums).tolist()
        self._count_seconds(trainer)  # after waiting for the device, which may be several steps behind
        metrics = {
            "loss": loss_sum / tokens if tokens else math.nan,
            "nll": nll_sum / tokens if tokens else math.nan,
            "lr": trainer.optimizers[0].param_groups[0]["lr"],
            "grad_norm": self._grad_norm.item(),
        }
        speed = self.speed(since=self._reported)
        self._reset_sums(module.device)
        if not trainer.is_global_zero:
            return
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        self._metrics.append({"step": trainer.global_step, "epoch": self.epoch, **finite})
        skipped = module.skipped.total
        logged = {**finite, **speed, "padding": self.padding, "epoch": self.epoch}
        logged |= {"skipped_steps": skipped} if skipped else {}
        for logger in trainer.loggers:
            logger.log_metrics({f"train/{key}": value for key, value in logged.items()}, step=trainer.global_step)
        self._update_fit_seconds()
        tokens = self.totals["src_tokens"] + self.totals["tgt_tokens"]
        self._speed.append(
            {"step": trainer.global_step, "tokens": tokens, "seconds": self.totals["fit_seconds"], **speed}
        )
        self._bar.set_postfix_str(training_note(trainer, logged), refresh=False)
        if getattr(self._bar, "delay", 0):  # show the first metrics at once
            self._bar.delay = 0
            self._bar.refresh()

    def _reset_sums(self, device: torch.device) -> None:
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        self._sums = torch.zeros(len(self.SUMS), device=device, dtype=dtype)
        self._reported = self.totals.copy()

    def _update_fit_seconds(self) -> None:
        now = time.perf_counter()
        self.totals["fit_seconds"] += now - self._fit_clock
        self._fit_clock = now


class CountTexts(Callback):
    """Counts what is drawn from each text of a mixture, and logs the loss of each as ``train/nll/NAME``."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.sentences = torch.zeros(len(names), dtype=torch.int64)
        """Sentences drawn so far, from each text."""
        self.tokens = torch.zeros(len(names), dtype=torch.int64)
        """Target tokens drawn so far, with EOS."""
        self.nll: dict[str, float] = {}
        """Negative log-likelihood of a target token in the latest report, in nats, by text."""
        self._sums = torch.zeros(2, len(names))
        """Since the latest report: negative log-likelihood, and target tokens of the steps that were not skipped."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all processes. All of them have to call it."""
        columns = torch.stack([self.sentences, self.tokens]), sum_over_processes(self._sums)
        drawn, sums = (dict(zip(self.names, column.T.tolist(), strict=True)) for column in columns)
        return {"drawn": drawn, "sums": sums, "nll": self.nll}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the texts that have the same name: ``ckpt_path`` allows another mixture."""
        self.sentences, self.tokens = torch.tensor([state_dict["drawn"].get(name, [0, 0]) for name in self.names]).T
        self._sums = torch.tensor([state_dict["sums"].get(name, [0.0, 0.0]) for name in self.names]).T
        self.nll = {name: nll for name, nll in state_dict["nll"].items() if name in self.names}

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # A restored sum is that of all processes.
        own = self._sums if trainer.is_global_zero else torch.zeros_like(self._sums)
        self._sums = own.to(pl_module.device)

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: StepShard, _: int) -> None:
        drawn = torch.tensor(batch.texts)
        self.sentences, self.tokens = self.sentences + drawn[:, 0], self.tokens + drawn[:, 1]
        is_skipped = outputs["tokens"] == 0
        tokens = drawn[:, 1].to(is_skipped.device, non_blocking=True) / trainer.world_size
        self._sums = self._sums + torch.stack([outputs["nll_of_texts"], tokens.where(~is_skipped, 0.0)])
        if trainer.global_step % trainer.log_every_n_steps == 0:
            self._report(trainer)

    def _report(self, trainer: L.Trainer) -> None:
        sums = zip(self.names, *sum_over_processes(self._sums).tolist(), strict=True)
        self.nll |= {name: nll / tokens for name, nll, tokens in sums if tokens}
        self._sums = torch.zeros_like(self._sums)
        metrics = {f"train/nll/{name}": nll for name, nll in self.nll.items()}
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=trainer.global_step)

    def results(self) -> dict[str, dict[str, float | int | None]]:
        """Return sentences, target tokens and the latest loss of each text."""
        return {
            name: {"sentences": sentences, "tgt_tokens": tokens, "nll": self.nll.get(name)}
            for name, sentences, tokens in zip(self.names, self.sentences.tolist(), self.tokens.tolist(), strict=True)
        }


class DecodingProgress(Callback):
    """Reports the progress of decoding validation and test sets."""

    def __init__(self) -> None:
        self._bars = ExitStack()
        self._bar: Any = None

    def on_validation_batch_start(
        self, trainer: L.Trainer, pl_module: Any, _: Batch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if batch_idx == 0:
            self._bars.close()
            split = trainer.datamodule.sets.evaluated[dataloader_idx]  # starts with the validation sets
            total = int((trainer.datamodule.sets.encoded[split].src_lengths + 1).sum())  # + 1 for EOS
            bar = progress_bar(f"Decoding {split}", total=total, unit="tokens", enabled=trainer.is_global_zero)
            self._bar = self._bars.enter_context(bar)

    def on_validation_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Batch, *_: int) -> None:
        if trainer.is_global_zero:  # the mask may be on a device: read it only where it is reported
            self._bar.update(int(batch.src_mask.sum()) * trainer.world_size)

    def _end(self, *_: Any) -> None:
        self._bars.close()

    on_test_batch_start = on_validation_batch_start
    on_test_batch_end = on_validation_batch_end
    on_validation_epoch_end = on_test_epoch_end = on_exception = _end


def metrics_fields(metrics: Iterable[str]) -> list[str]:
    """Return the columns of ``metrics.csv``, given the names of metrics other than loss, BLEU, chrF and AER."""
    scores = ("loss", "bleu", "chrf", *metrics, "aer")
    return ["step", "epoch", "lr", "loss", "nll", "grad_norm", *(f"valid_{name}" for name in scores)]


def sum_over_processes(values: Tensor) -> Tensor:
    """Return the sum of the tensors of all processes. All of them have to call it."""
    total = values.clone()
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(total)
    return total


def training_note(trainer: L.Trainer, metrics: Mapping[str, float]) -> str:
    """Return what is shown next to the number of steps, from the metrics that are logged.

    A loss that is not finite is missing there, and so is the number of skipped steps if it is 0.
    """
    loss = f"{metrics['loss']:.3f}" if "loss" in metrics else "not finite"
    speed, epoch, lr = (metrics[name] for name in ("tokens_per_second", "epoch", "lr"))
    note = f"loss {loss}, {speed:,.0f} tokens/s, epoch {epoch}, lr {lr:.2e}"
    if "skipped_steps" in metrics:
        note += f", {metrics['skipped_steps']:,} steps skipped"
    for timer in trainer.callbacks:
        if isinstance(timer, Timer):  # trainer.max_time
            note += f", {tqdm.format_interval(timer.time_remaining())} until trainer.max_time"
    return note


def validation_line(step: int, scores: Mapping[str, float], *, epoch: int, train_seconds: float) -> str:
    """Return the line that is printed after a validation with these scores: loss, bleu, chrf and perhaps aer."""
    aer = f"  AER {scores['aer']:.3f}" if "aer" in scores else ""
    return (
        f"step {step:>6}  epoch {epoch}  valid: loss {scores['loss']:.3f}  BLEU {scores['bleu']:.2f}  "
        f"chrF {scores['chrf']:.2f}{aer}  after {tqdm.format_interval(train_seconds)}"
    )
