"""Run these tests against the formulas and against the kernels."""

from types import ModuleType

import pytest

from heed import functional, kernels


@pytest.fixture(params=[functional, kernels], ids=lambda room: room.__name__)
def room(request: pytest.FixtureRequest) -> ModuleType:
    """The module under test: both have the same functions."""
    return request.param  # type: ignore[no-any-return]
