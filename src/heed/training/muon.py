"""The Muon optimizer (Jordan et al. 2024)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import torch
from annotated_types import Interval
from jaxtyping import Float
from torch import Tensor
from torch.optim import AdamW
from torch.optim.swa_utils import get_ema_multi_avg_fn

from heed import compat
from heed.options import NotNegative, UnitInterval


class Muon(AdamW):
    """Muon for weight matrices, AdamW for embedding tables, biases and gains.

    With G the gradient of a weight matrix W of size r × c, a step computes

        M ← μ M + (1 − μ) G
        W ← (1 − η λ) W − η · 0.2 √max(r, c) · orthogonalize(μ M + (1 − μ) G)

    A weight with more than two dimensions consists of matrices, such as those of attention heads.

    The factor 0.2 √max(r, c) makes the root mean square of an update about that of AdamW (Liu et al. 2025, eq. 4), so
    that biases and gains can share the learning rate η. Embedding tables need a larger one (`embedding_lr_scale`).

    torch.optim.Muon orthogonalizes one matrix at a time, always in bf16, and takes matrices only.

    Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        *,
        lr: NotNegative,
        momentum: UnitInterval,
        newton_schulz: Annotated[int, Interval(ge=1, le=100)],
        betas: Sequence[UnitInterval],
        eps: NotNegative,
        weight_decay: NotNegative,
        fused: bool,
    ) -> None:
        """
        Args:
            params: parameter groups. Muon updates the groups with "kind": "matrix", AdamW all others.
            lr: η.
            momentum: μ.
            newton_schulz: iterations of `orthogonalize`.
            betas: of AdamW, as are ``eps`` and ``fused``.
            weight_decay: λ.
        """
        beta1, beta2 = betas
        super().__init__(params, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay, fused=fused)
        self.momentum = momentum
        self.newton_schulz = newton_schulz

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step. If ``found_inf`` is a tensor of 1, change nothing, as torch's fused optimizers do."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if group.get("kind") != "matrix"]
        loss = super().step(closure)
        self.param_groups = groups
        with torch.no_grad():
            for group in groups:
                if group.get("kind") == "matrix":
                    self._update_matrices(group)
        return loss

    def _update_matrices(self, group: dict[str, Any]) -> None:
        by_shape: defaultdict[torch.Size, list[Tensor]] = defaultdict(list)
        for matrix in group["params"]:
            if matrix.grad is not None:
                by_shape[matrix.shape].append(matrix)
        found_inf: Tensor | None = getattr(self, "found_inf", None)
        decay: float | Tensor = 1 - group["lr"] * group["weight_decay"]
        if found_inf is not None:
            decay = torch.where(found_inf.bool(), 1.0, decay)
        for shape, matrices in by_shape.items():
            # Matrices of a shape in one call: a GPU computes each faster than Python asks for it.
            gradients = torch.stack([matrix.grad for matrix in matrices if matrix.grad is not None])
            means = [self._momentum(matrix) for matrix in matrices]
            if found_inf is not None:
                gradients = torch.where(found_inf.bool(), torch.stack(means), gradients)  # changes no mean
            get_ema_multi_avg_fn(self.momentum)(means, gradients.unbind(), 0)  # type: ignore[no-untyped-call]
            directions = gradients.lerp(torch.stack(means), self.momentum)
            updates = orthogonalize(directions.flatten(0, -3), self.newton_schulz).view_as(directions)
            if found_inf is not None:
                updates = updates * (1 - found_inf)
            step_size = group["lr"] * 0.2 * max(shape[-2:]) ** 0.5
            compat.descend_all_(matrices, updates.unbind(), decay=decay, step_size=step_size)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Return M, which is 0 before the first step."""
        state = self.state[matrix]
        if "momentum" not in state:
            # AdamW expects "step" in every state that it loads.
            state.update(step=torch.zeros(()), momentum=torch.zeros_like(matrix))
        return state["momentum"]


def orthogonalize(matrices: Float[Tensor, "N R C"], iterations: int) -> Float[Tensor, "N R C"]:
    """Return approximately U Vᵀ for each matrix with the singular value decomposition U Σ Vᵀ.

    Newton-Schulz iteration: X = G / ‖G‖, then X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X. The coefficients are those of Jordan
    et al. 2024. They do not converge to 1 but reach its neighbourhood in few iterations: after five, singular values of
    X that were above 0.002 are between 0.68 and 1.21.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x
