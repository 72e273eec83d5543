"""Metrics of each text of a mixture."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from heed.data.steps.stream import StepShard
from heed.training.callbacks.metrics_logger import sum_over_processes


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
