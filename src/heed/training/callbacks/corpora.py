"""Metrics of each corpus of a mixture."""

from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback

from heed.data.datamodule import StepShard
from heed.options import AtLeast1


class CountCorpora(Callback):
    """Counts what is drawn from each corpus of a mixture, and logs the loss of each as ``train/nll/NAME``.

    Args:
        names: of the corpora.
        log_every: steps between two reports.
    """

    def __init__(self, names: list[str], log_every: AtLeast1) -> None:
        self.names, self.log_every = names, log_every
        self.sentences = torch.zeros(len(names), dtype=torch.int64)
        """Sentences drawn so far, from each corpus."""
        self.tokens = torch.zeros(len(names), dtype=torch.int64)
        """Target tokens drawn so far, with EOS."""
        self.nll: dict[str, float] = {}
        """Negative log-likelihood of a target token in the latest report, in nats, by corpus."""
        self._reported = self.tokens.clone()
        self._sums: torch.Tensor | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"sentences": self.sentences, "tokens": self.tokens, "nll": self.nll}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.sentences, self.tokens, self.nll = (state_dict[name] for name in ("sentences", "tokens", "nll"))
        self._reported = self.tokens.clone()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: StepShard, batch_idx: int
    ) -> None:
        drawn = torch.tensor(batch.corpora)
        self.sentences, self.tokens = self.sentences + drawn[:, 0], self.tokens + drawn[:, 1]
        nll = outputs["nll_of_corpora"]
        self._sums = nll if self._sums is None else self._sums + nll
        if trainer.global_step % self.log_every == 0:
            self._report(trainer)

    def _report(self, trainer: L.Trainer) -> None:
        """Log the loss since the last report. All processes have to call it."""
        assert self._sums is not None
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(self._sums)
        tokens = (self.tokens - self._reported).tolist()
        sums = self._sums.tolist()
        self.nll |= {name: nll / count for name, nll, count in zip(self.names, sums, tokens, strict=True) if count}
        self._reported, self._sums = self.tokens, None
        for logger in trainer.loggers:
            logger.log_metrics({f"train/nll/{name}": nll for name, nll in self.nll.items()}, step=trainer.global_step)

    def results(self) -> dict[str, dict[str, float | int | None]]:
        """Return sentences, target tokens and the latest loss of each corpus."""
        counts = zip(self.names, self.sentences.tolist(), self.tokens.tolist(), strict=True)
        return {
            name: {"sentences": sentences, "tgt_tokens": tokens, "nll": self.nll.get(name)}
            for name, sentences, tokens in counts
        }
