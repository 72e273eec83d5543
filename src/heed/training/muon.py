"""Muon: an optimizer that turns a matrix as far as its gradient asks, in all directions alike."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import AdamW

from heed.options import AtLeast1, NotNegative, Share


class Muon(AdamW):
    """Muon (Jordan et al. 2024) for matrices, AdamW for all else: embedding tables, biases, gains.

    With G the gradient of a matrix W of r × c, each step does

        M ← μ M + (1 − μ) G,    W ← (1 − η λ) W − η · 0.2 √max(r, c) · orthogonal(μ M + (1 − μ) G),

    the size of which is about that of AdamW's (Liu et al. 2025, eq. 4), so that biases and gains can share η;
    embedding tables want more of it (`embedding_lr_scale`).

    Args:
        params: groups with "kind": "matrix" are Muon's (a map from vectors to vectors, which a table is not).
        momentum: μ.
        newton_schulz: iterations of :func:`orthogonal`.
        betas: AdamW's two, as are ``eps`` and ``fused``.
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        *,
        lr: NotNegative,
        momentum: Share,
        newton_schulz: AtLeast1,
        betas: Sequence[Share],
        eps: NotNegative,
        weight_decay: NotNegative,
        fused: bool,
    ) -> None:
        beta1, beta2 = betas
        super().__init__(params, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, fused=fused)
        self.momentum = momentum
        self.newton_schulz = newton_schulz

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Like torch's fused optimizers it changes nothing where the flag ``found_inf`` is set, a tensor of 0 or 1."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if group.get("kind") != "matrix"]
        loss = super().step(closure)
        self.param_groups = groups
        with torch.no_grad():
            for group in groups:
                if group.get("kind") == "matrix":
                    self._turn(group)
        return loss

    def _turn(self, group: dict[str, Any]) -> None:
        alike: defaultdict[torch.Size, list[Tensor]] = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                alike[matrix.shape].append(matrix)
        found_inf: Tensor | None = getattr(self, "found_inf", None)
        decay: float | Tensor = 1 - group["lr"] * group["weight_decay"]
        if found_inf is not None:
            decay = torch.where(found_inf.bool(), 1.0, decay)
        for shape, matrices in alike.items():
            towards = orthogonal(torch.stack([self._momentum(matrix) for matrix in matrices]), self.newton_schulz)
            if found_inf is not None:
                towards = towards * (1 - found_inf)
            length = group["lr"] * 0.2 * max(shape) ** 0.5
            for matrix, direction in zip(matrices, towards, strict=True):
                matrix.mul_(decay).sub_(direction, alpha=length)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Nesterov's: the mean gradient, and this one once more."""
        assert matrix.grad is not None
        state = self.state[matrix]
        if "momentum" not in state:
            # AdamW looks for a step in every state that it loads.
            state.update(step=torch.zeros(()), momentum=torch.zeros_like(matrix))
        mean: Tensor = state["momentum"]
        gradient = matrix.grad
        if (found_inf := getattr(self, "found_inf", None)) is not None:
            gradient = torch.where(found_inf.bool(), mean, gradient)  # the mean of itself and itself stays
        mean.lerp_(gradient, 1 - self.momentum)
        return gradient.lerp(mean, self.momentum)


def orthogonal(matrices: Float[Tensor, "N R C"], iterations: int) -> Float[Tensor, "N R C"]:
    """About U Vᵀ of each matrix U Σ Vᵀ: after five iterations singular values that were above 0.001 are 0.7 to 1.2.

    With X = G / ‖G‖, X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X (Newton and Schulz's iteration), where a, b and c are Jordan's,
    which do not settle at 1 and are there soonest. Products alone, of all matrices at once.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    upright = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if upright else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if upright else x
