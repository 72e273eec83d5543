"""Clipping of gradients by their total norm (Pascanu et al. 2013)."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from heed import compat


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Float[Tensor, ""]:
    """Scale all gradients so that their total L2 norm is at most ``max_norm``; return the norm before.

    The squares are summed in float64, so that the result does not depend on the order of the parameters.

    Args:
        max_norm: 0 leaves the gradients as they are.
    """
    trained = [parameter for parameter in parameters if parameter.grad is not None]
    norms = torch.stack(list(compat.norms([parameter.grad for parameter in trained if parameter.grad is not None])))
    exact = norms if norms.device.type == "mps" else norms.double()
    norm = torch.linalg.vector_norm(exact).to(norms.dtype)
    if max_norm:
        nn.utils.clip_grads_with_norm_(trained, max_norm, norm)
    return norm
