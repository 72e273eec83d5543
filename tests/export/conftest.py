"""Run ``heed`` in the test process."""

from collections.abc import Callable
from typing import Any

import pytest

from heed.cli import main


@pytest.fixture
def heed_cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """``heed_cli(command, *options)``: exit status, standard output and standard error."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return (status, *capsys.readouterr())

    return run
