"""Types and shapes are checked in unit tests, in the first calls of each test and in some of the later ones."""

import pytest
import torch
from torch import Tensor

from heed.kernels import dropout
from tests import type_checks


def is_refused(x: Tensor) -> bool:
    """Return whether the checks refuse a tensor. torch accepts every dtype in dropout with p = 0."""
    try:
        dropout(x, 0.0)
    except TypeError as error:
        return "Type-check error" in str(error)
    return False


@pytest.mark.parametrize("test", [1, 2])
def test_every_test_checks_the_first_calls_and_some_later_ones(test: int, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--jaxtyping-packages"):
        pytest.skip("scripts/test.py adds the checks")
    right, wrong = torch.zeros(5), torch.zeros(5, dtype=torch.complex64)
    assert is_refused(wrong)
    assert not any(is_refused(right) for _ in range(type_checks.ALWAYS))
    assert 1 <= sum(is_refused(wrong) for _ in range(type_checks.ONE_IN)) <= 2
