"""Translate text with trained models: model folders, search settings, the translator, minimum Bayes risk decoding.

Importing the package imports none of its modules, so that the command line shows these defaults without torch.
"""

BATCH_TOKENS = 4096
"""Default padded source tokens of a batch."""

MAX_TOKENS = 1024
"""Default limit of a sentence in subwords. Longer lines are rarely sentences and take seconds each."""
