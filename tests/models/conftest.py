"""Exact arithmetic for every test of a model."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """float64 from a fixed seed: what differs then differs by more than rounding, and does so again tomorrow."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
