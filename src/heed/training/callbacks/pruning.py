"""End a run early when a search finds it unpromising."""

from collections.abc import Callable, Sequence

import lightning as L
from lightning.pytorch.callbacks import Callback

Report = Callable[[int, float], bool]
"""Takes an optimizer step and the metric there, and returns whether to end the run."""


class Pruning(Callback):
    """Reports every validation to a search. If the search gives the run up, all processes stop after that validation.

    Attributes:
        pruned_at: the step at which the search gave the run up, if it did.
    """

    def __init__(self, metric: str, report: Report | None) -> None:
        """
        Args:
            metric: the validation metric to report: bleu, chrf, comet or loss.
            report: asks the search; None in all processes but the first.
        """
        self.metric, self.report = metric, report
        self.pruned_at: int | None = None

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        give_up = self.report is not None and self.report(trainer.global_step, pl_module.validation_scores[self.metric])
        # A run that ends anyway, after this validation, is complete.
        if trainer.strategy.broadcast(give_up) and not trainer.should_stop:
            self.pruned_at = trainer.global_step
            trainer.should_stop = True


def find_pruned_step(callbacks: Sequence[Callback]) -> int | None:
    """Return the step at which a search ended the run early, if it did."""
    return next((callback.pruned_at for callback in callbacks if isinstance(callback, Pruning)), None)
