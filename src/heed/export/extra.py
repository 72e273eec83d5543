"""Packages of the extra ``export``."""

from importlib import import_module
from typing import Any

from heed.errors import missing_package


def require(package: str) -> Any:
    """Import a package of the extra.

    Raises:
        HeedError: it is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise missing_package("This export", package, "export") from error
