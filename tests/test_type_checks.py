"""Types and shapes are checked in tests, in the first calls of each test and in some of the later ones."""

import pytest
import torch
from torch import Tensor

from heed.functional.linear import prepared_linear
from tests import type_checks

WEIGHT = torch.zeros(5, 3)


def is_refused(bias: Tensor) -> bool:
    """Return whether the checks refuse a bias. torch accepts all that broadcast."""
    try:
        prepared_linear((WEIGHT, bias))
    except TypeError as error:
        return "Type-check error" in str(error)
    return False


@pytest.mark.parametrize("test", [1, 2])
def test_every_test_checks_the_first_calls_and_some_later_ones(test: int) -> None:
    right, wrong = torch.zeros(5), torch.zeros(1)
    assert is_refused(wrong)
    assert not any(is_refused(right) for _ in range(type_checks.ALWAYS))
    assert 1 <= sum(is_refused(wrong) for _ in range(type_checks.ONE_IN)) <= 2
