"""Packages of the extra ``heed[export]``."""

from importlib import import_module
from typing import Any

from heed.errors import HeedError


def require(package: str) -> Any:
    """Import a package of the extra.

    Raises:
        HeedError: it is not installed.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise HeedError(f"This export needs {package}: run `pip install 'heed[export]'`.") from error
