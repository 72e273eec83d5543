"""Quiet Optuna."""

from collections.abc import Iterator

import optuna
import pytest


@pytest.fixture(autouse=True)
def quiet_optuna() -> Iterator[None]:
    """Do not log every new study to stderr."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(level)
