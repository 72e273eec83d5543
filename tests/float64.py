"""Exact arithmetic for tests of formulas, layers and models."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """float64 and a fixed seed, so that differences exceed rounding and are reproducible."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
