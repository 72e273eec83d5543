"""Private interfaces of libraries, in one place, sorted by library.

Each function names the library and version it was written for; tests/test_compat.py fails when the library changes.
Libraries are imported inside the functions and by name, so that importing this module loads none of them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

# ---- hydra


def hydra_job_error(job_return: Any) -> BaseException:
    """Return the exception of a failed job. Its public property prints a line first. hydra-core 1.3: JobReturn."""
    error: BaseException = job_return._return_value
    return error


def hydra_edit_loaded_configs(edit: Callable[[Any], None]) -> None:
    """Call ``edit`` on each config file that Hydra loads, before it is merged. hydra-core 1.3: ConfigLoaderImpl.

    Args:
        edit: changes an OmegaConf config in place. Its keys are those of the composed config: the file's package is
            applied already.
    """
    loader: Any = import_module("hydra._internal.config_loader_impl").ConfigLoaderImpl
    load = loader._load_single_config

    def load_and_edit(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = load(self, *args, **kwargs)
        edit(result.config)
        return result

    loader._load_single_config = load_and_edit
