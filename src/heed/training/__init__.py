"""Training: the LightningModule, the loss, optimizers, schedules, the Trainer, callbacks and loggers."""
