"""Private interfaces of libraries, in one place, sorted by library.

Each function names the library and version it was written for; tests/test_compat.py fails when the library changes.
Libraries are imported inside the functions and by name, so that importing this module loads none of them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

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


# ---- torch


def has_onednn_linear() -> bool:
    """Return whether this build of torch has oneDNN's linear layer. torch 2.13: torch.ops.mkldnn."""
    import torch

    return hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn_packed_weight(weight: "Tensor") -> "Tensor":
    """Return a weight "O I" in oneDNN's blocked layout (fp32, CPU)."""
    import torch

    packed: "Tensor" = torch.ops.mkldnn._reorder_linear_weight(weight)
    return packed


def onednn_linear(x: "Tensor", packed: "Tensor", bias: "Tensor | None") -> "Tensor":
    """Return x Wᵀ + b with a weight from :func:`onednn_packed_weight`. It has no gradient."""
    import torch

    product: "Tensor" = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return product
