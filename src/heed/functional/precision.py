"""What autocast makes of numbers that meet in matrix products."""

import torch
from jaxtyping import Float
from torch import Tensor


def products_dtype(x: Tensor) -> torch.dtype:
    """In which a matrix product with ``x`` is computed here: autocast leaves float64 alone."""
    device = x.device.type
    rounds = torch.is_autocast_enabled(device) and x.dtype != torch.float64
    return torch.get_autocast_dtype(device) if rounds else x.dtype


def for_products(x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """``x`` as products will read it: autocast would round it for each of them, and each gradient back."""
    return x.to(products_dtype(x))
