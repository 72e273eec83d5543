"""A table of translations of the same sentences at every validation."""

import math

import lightning as L
from lightning.pytorch.callbacks import Callback

from heed.options import AtLeast0
from heed.training.loggers import log_table


class SampleTranslations(Callback):
    """Logs source, reference and translation of some validation sentences as a table at every validation."""

    def __init__(self, *, sentences: AtLeast0) -> None:
        """
        Args:
            sentences: about how many, evenly spaced in the validation set; 0: none.
        """
        self.sentences = sentences

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.sentences == 0:
            return
        for name in pl_module.data.validated:
            valid, translations = pl_module.data.texts[name], pl_module.results[name].translations
            sampled = range(0, len(valid), math.ceil(len(valid) / self.sentences))
            log_table(
                trainer.loggers,
                f"{name}/translations",
                ("source", "reference", "translation"),
                [(valid.src[i], valid.tgt[i], translations[i]) for i in sampled],
                step=trainer.global_step,
            )
