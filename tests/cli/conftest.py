"""``heed(command, *options)`` is short for ``heed_cli(…)``."""

from tests.conftest import heed_cli as heed  # noqa: F401
