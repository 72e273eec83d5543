"""Run these tests in float64."""

from tests.float64 import float64

__all__ = ["float64"]
