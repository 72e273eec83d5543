"""Private interfaces of libraries, each used through one function here and checked by tests/test_compat.py."""

import torch
from torch import Tensor

# ---- torch 2.13


def has_onednn_linear() -> bool:
    """Return whether this build of torch has oneDNN's linear layer."""
    return hasattr(torch.ops.mkldnn, "_linear_pointwise")


def onednn_packed_weight(weight: Tensor) -> Tensor:
    """Return a weight "O I" in oneDNN's blocked layout (fp32, CPU)."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight)
    return packed


def onednn_linear(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """Return x Wᵀ + b with a weight from :func:`onednn_packed_weight`. It has no gradient."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return product
